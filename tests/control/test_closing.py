"""What was open closes: a config that allows less, a token that ends, operators who are gone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from gateway_admin import server
from gateway_api.tokens import Tokens, token_file, write_token
from gateway_testing import GatewayProcess

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from gateway_core.contract.errors import ConfigError
from tests import web
from tests.command_line import tidegate
from tests.servers_shared import need

BROKER = "brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}\n"
ALLOWED = f"{BROKER}apply: {{allow: {{environment: [PLACE, OTHER]}}}}\n"
CLOSED = f"{BROKER}apply: {{allow: {{environment: []}}}}\n"
TRIGGER = "subscriber: 'http://127.0.0.1:9/${PLACE}'\n"


@pytest.mark.spec("AD-13")
@pytest.mark.usefixtures("processes")
def test_a_config_that_allows_less_is_refused_until_what_it_forbids_is_gone(tmp_path: Path) -> None:
    with GatewayProcess(ALLOWED, tmp_path, {"PLACE": "x", "TIDEGATE_RELOAD": "signal"}) as gateway:
        headers = {**gateway.admin_headers, "content-type": "application/yaml"}
        with web.client(base_url=gateway.admin_url, headers=headers, timeout=60, trust_env=False) as client:
            for name in ("one", "two"):
                assert client.put(f"/api/v1/triggers/{name}", content=TRIGGER).status_code == 201
            gateway.config.write_text(CLOSED)
            refused = client.post("/api/v1/reload")
            assert refused.status_code == 422, refused.text
            faults = refused.json()["faults"]
            assert {fault["file"] for fault in faults} == {
                str(gateway.data_dir / "applied" / f"{name}.yaml") for name in ("one", "two")
            }
            assert "`PLACE`" in faults[0]["message"]
            assert "tidegate delete trigger" in faults[0]["remedy"]
            assert "PLACE" in client.get("/status").json()["config"]["error"]
            other = client.put("/api/v1/triggers/three", content="subscriber: http://127.0.0.1:9/\n")
            assert other.status_code == 409, other.text
            assert "delete it first" in other.json()["detail"]
            assert client.delete("/api/v1/triggers/one").status_code == 204
            changed = client.put("/api/v1/triggers/two", content="subscriber: http://127.0.0.1:9/\n")
            assert changed.status_code == 200, "the trigger at fault may be changed so that it obeys"
            assert client.post("/api/v1/reload").status_code == 200


@pytest.mark.spec("AD-14")
@pytest.mark.parametrize("name", ["hmac", "standard_webhooks", "mtls"])
def test_what_does_not_prove_who_calls_is_no_authenticator_of_operators(tmp_path: Path, name: str) -> None:
    options = {
        "hmac": "{preset: github, secrets: [abcdefghijklmnop]}",
        "standard_webhooks": "{secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}",
        "mtls": "{common_names: [x]}",
    }[name]
    file = tmp_path / "c.yaml"
    file.write_text(f"{BROKER}operators: {{o: {{authenticate: [{{{name}: {options}}}], role: admin}}}}\n")
    with pytest.raises(ConfigError) as failed:
        load([file], Registry.installed(), {})
    assert "operators.o.authenticate[0]" in str(failed.value)
    assert "use `oidc`" in str(failed.value)


@pytest.mark.spec("AD-15")
@pytest.mark.usefixtures("processes")
def test_a_stream_ends_with_the_token_of_its_reader(tmp_path: Path) -> None:
    with GatewayProcess(BROKER, tmp_path) as gateway:
        url, headers = f"{gateway.admin_url}/api/v1/tap", gateway.admin_headers
        with web.stream("GET", url, headers=headers, timeout=60, trust_env=False) as answer:
            assert answer.status_code == 200
            parts = answer.iter_text()
            assert "event: open" in next(parts)
            assert tidegate("admin", "token", "--rotate", "--data-dir", gateway.data_dir).returncode == 0
            rest = "".join(parts)  # returns once the gateway has closed the stream
        assert "event: end" not in rest
        lines = [json.loads(line) for line in (gateway.data_dir / "audit" / "audit.jsonl").read_text().splitlines()]
        assert [line["path"] for line in lines if line["result"] == "denied"] == ["/api/v1/tap"]
    assert server.RECHECK_S <= 10


@pytest.mark.spec("AD-01")
def test_a_token_that_somebody_else_put_there_is_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = tmp_path / "known"
    known.write_text("k" * 40 + "\n")
    known.chmod(0o644)
    data = tmp_path / "data"
    data.mkdir()
    token_file(data).symlink_to(known)
    assert Tokens(data).holder("k" * 40) is None
    assert "everyone may read" in caplog.text
    assert known.stat().st_mode & 0o777 == 0o644, "a file elsewhere is left as it is"
    token_file(data).unlink()
    (data / ".admin.token.tmp").symlink_to(tmp_path / "elsewhere")
    token = write_token(data)
    assert not (tmp_path / "elsewhere").exists()
    assert Tokens(data).holder(token) is not None


@pytest.mark.spec("AD-01")
def test_a_token_file_of_another_user_is_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    need(os.geteuid() == 0, "only a superuser can give a file to another user")
    data = tmp_path / "data"
    data.mkdir()
    token = write_token(data)
    os.chown(token_file(data), 65534, 65534)
    assert Tokens(data).holder(token) is None
    assert "belongs to another user" in caplog.text
    os.chown(data, 65534, 65534)
    assert Tokens(data).holder(token) is not None, "a superuser looks after the directory of another user"
