"""The admin API with TLS, and who is at its socket."""

from __future__ import annotations

import getpass
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from gateway_testing import GatewayProcess

from tests import command_line, web

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'


def tidegate(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return command_line.tidegate(*arguments, env=env, cwd=folder)


def started(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("TIDEGATE_")}
    command = [sys.executable, "-m", "gateway_core.cli", *arguments]
    return subprocess.run(command, cwd=folder, env={**own, **env}, capture_output=True, text=True, timeout=60)


@pytest.mark.spec("AD-12")
def test_the_api_is_served_with_tls(tmp_path: Path) -> None:
    ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
    issued = ca.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    folder = tmp_path / "tls"
    folder.mkdir()
    issued.private_key_pem.write_to_path(folder / "tls.key")
    issued.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    env = {"TIDEGATE_ADMIN_TLS": str(folder)}
    with GatewayProcess(CONFIG, tmp_path, env, "--admin", "0.0.0.0:0") as gateway:
        assert "is not encrypted" not in gateway.log()
        url = gateway.admin_url.replace("0.0.0.0", "127.0.0.1")
        assert url.startswith("https://")
        answer = web.get(f"{url}/status", headers=gateway.admin_headers, verify=trust, trust_env=False)
        assert answer.status_code == 200
        token = gateway.admin_headers["authorization"].removeprefix("Bearer ")
        more = {"TIDEGATE_ADMIN_TOKEN": token, "SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        assert tidegate(tmp_path, "status", "--admin", url, **more).returncode == 0
        untrusted = tidegate(tmp_path, "status", "--admin", url, TIDEGATE_ADMIN_TOKEN=token)
        assert (untrusted.returncode, "certificate" in untrusted.stderr.lower()) == (1, True)
        assert tidegate(tmp_path, "status", "--data-dir", str(gateway.data_dir)).returncode == 0


@pytest.mark.spec("AD-12")
def test_a_certificate_that_can_not_be_used_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(CONFIG)
    for command, way in (("check", tidegate), ("run", started)):
        ran = way(tmp_path, command, "t.yaml", TIDEGATE_ADMIN_TLS="nowhere.pem", TIDEGATE_ADMIN="127.0.0.1:0")
        assert (ran.returncode, "the certificate files can't be used" in ran.stdout + ran.stderr) == (1, True)
        assert "Traceback" not in ran.stderr


@pytest.mark.spec("AD-06")
def test_the_user_at_the_socket_is_recorded(tmp_path: Path) -> None:
    with GatewayProcess(CONFIG, tmp_path) as gateway:
        assert tidegate(tmp_path, "reload", "--data-dir", str(gateway.data_dir)).returncode == 0
        (line,) = (gateway.data_dir / "audit/audit.jsonl").read_text().splitlines()
    found = json.loads(line)
    known = sys.platform == "linux"
    assert (found["who"], found["where"]) == (f"user {getpass.getuser()}" if known else "local user", "socket")
