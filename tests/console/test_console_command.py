"""`tidegate console` as a new user meets it, and the gateway's switch for the console."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from gateway_console.cli import link as links
from gateway_testing.process import GatewayProcess

from tests import web
from tests.command_line import tidegate
from tests.console.lab import OPENED, Lab

pytestmark = pytest.mark.spec("CO-90")
CONFIG = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'


@contextmanager
def gateway(folder: Path, *flags: str, **env: str) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG, folder, env, *flags) as found:
        yield found


def told(found: GatewayProcess) -> dict[str, Any]:
    """What the gateway says of itself in its data directory."""
    document: dict[str, Any] = json.loads((found.data_dir / "gateway.json").read_text())
    return document


def test_without_a_gateway_it_says_how_to_name_one(tmp_path: Path) -> None:
    ran = tidegate("console", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no gateway is running with the data directory" in ran.stderr
    assert "--admin" in ran.stderr


def test_the_printed_link_logs_in_once(shared: Lab) -> None:
    ran = tidegate("console", "--data-dir", shared.gateway.data_dir)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == "", "what a script reads is the link alone"
    link = ran.stdout.strip()
    assert link.startswith(f"{shared.url}/login?code=")
    with web.client(headers=OPENED, follow_redirects=True) as client:
        assert "Overview" in client.get(link).text
    assert web.get(link, headers=OPENED).status_code == 401
    assert told(shared.gateway)["console"] == shared.url


def test_a_gateway_elsewhere_needs_a_token(shared: Lab, tmp_path: Path) -> None:
    address = shared.gateway.admin_url.removeprefix("http://")

    def run(**env: str) -> Any:
        return tidegate("console", "--admin", address, "--data-dir", tmp_path / "none", env=env)

    for env in ({}, {"TIDEGATE_ADMIN_TOKEN": "wrong"}):
        ran = run(**env)
        assert (ran.returncode, ran.stdout) == (1, "")
        assert "TIDEGATE_ADMIN_TOKEN" in ran.stderr
    ran = run(TIDEGATE_ADMIN_TOKEN=shared.token("metrics"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "viewer" in ran.stderr
    ran = run(TIDEGATE_ADMIN_TOKEN=shared.token("viewer"))
    assert ran.returncode == 0, ran.stderr
    with web.client(headers=OPENED, follow_redirects=True) as client:
        assert 'title="viewer"' in client.get(ran.stdout.strip()).text, "the role of the token"


@pytest.mark.parametrize(
    ("desktop", "ssh", "opens", "says"),
    [(True, False, True, "Opened"), (False, False, False, "Open it"), (False, True, False, "ssh -L")],
)
def test_on_a_terminal_it_opens_a_browser_if_there_is_a_desktop(
    shared: Lab,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    desktop: bool,
    ssh: bool,
    opens: bool,
    says: str,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(links, "_desktop", lambda: desktop)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    if ssh:
        monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22")
    assert links.open_console(None, shared.gateway.data_dir, browser=True) == 0
    out, err = capsys.readouterr()
    assert opened == ([out.strip()] if opens else [])
    assert says in err
    assert "within a minute" in err


@pytest.mark.usefixtures("processes")
def test_a_gateway_with_a_socket_only_has_no_address_for_browsers(tmp_path: Path) -> None:
    with gateway(tmp_path, "--admin", "socket") as found:
        assert "console" not in told(found)
        ran = tidegate("console", "--data-dir", found.data_dir)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no address for browsers" in ran.stderr
    assert "--admin HOST:PORT" in ran.stderr


@pytest.mark.usefixtures("processes")
def test_a_link_to_a_gateway_on_all_addresses_with_tls_can_be_opened(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "tls.pem")
    (tmp_path / "tls.pem").chmod(0o600)
    with gateway(tmp_path, "--admin", "0.0.0.0:0", "--admin-tls", str(tmp_path / "tls.pem")) as found:
        ran = tidegate("console", "--data-dir", found.data_dir)
        assert ran.stdout.startswith("https://127.0.0.1:"), ran.stderr
        answer = web.get(ran.stdout.strip(), headers=OPENED, verify=False)
        assert (answer.status_code, "Secure" in answer.headers["set-cookie"]) == (303, True)
        plain = told(found)["admin"].replace("https://0.0.0.0", "127.0.0.1")
        ran = tidegate("console", "--admin", plain, "--data-dir", tmp_path / "none")
    assert (ran.returncode, "write https://" in ran.stderr) == (1, True), ran.stderr


@pytest.mark.spec("CO-91")
@pytest.mark.usefixtures("processes")
def test_the_console_can_be_switched_off(tmp_path: Path) -> None:
    with gateway(tmp_path, TIDEGATE_CONSOLE="off") as found:
        assert "console" not in told(found)
        for path in ("/", "/console", "/console/login"):
            assert found.admin(path).status_code == 404
        assert found.admin("/status").status_code == 200
        ran = tidegate("console", "--data-dir", found.data_dir)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "TIDEGATE_CONSOLE=off" in ran.stderr


@pytest.mark.spec("CO-91")
@pytest.mark.usefixtures("processes")
def test_a_switch_that_is_neither_on_nor_off_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "tidegate.yaml").write_text(CONFIG)
    for command, code in (("check", 1), ("run", 1)):
        ran = tidegate(command, env={"TIDEGATE_CONSOLE": "no", "TIDEGATE_ADMIN": "off"}, cwd=tmp_path)
        assert ran.returncode == code
        assert "TIDEGATE_CONSOLE: expected on or off" in ran.stderr + ran.stdout
