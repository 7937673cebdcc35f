"""Operators: whom the config lets call the admin API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_admin.operators_config import OperatorsConfig, RoleConfig
from gateway_testing import GatewayProcess
from pydantic import ValidationError

from gateway_core.contract.identity import Identity
from tests import web
from tests.command_line import tidegate

CONFIG = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
"""
OPERATORS = """
operators:
  machines:
    authenticate: [{api_key: {file: keys.json, bearer: true}}]
    roles:
      - {role: operator, from: [key deploy]}
      - {role: viewer, from: ["key see-*"]}
  anyone: {anonymous: true, role: metrics}
"""


def new_key(folder: Path, name: str) -> str:
    done = tidegate("auth", "key", "new", name, "-f", "keys.json", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    key: str = json.loads(done.stdout)["key"]
    return key


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def keys(folder: Path) -> dict[str, str]:
    return {name: new_key(folder, name) for name in ("deploy", "see-all", "other")}


@pytest.fixture(scope="module")
def gateway(folder: Path, keys: dict[str, str]) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG + OPERATORS, folder) as running:
        yield running


def status(gateway: GatewayProcess, path: str, token: str | None, method: str = "GET", **more: str) -> int:
    headers = {**({"authorization": f"Bearer {token}"} if token is not None else {}), **more}
    return web.request(method, gateway.admin_url + path, headers=headers, verify=False, timeout=30).status_code


@pytest.mark.spec("AD-10")
@pytest.mark.usefixtures("processes")
def test_api_keys_have_the_roles_that_the_config_gives_them(gateway: GatewayProcess, keys: dict[str, str]) -> None:
    paths = (("GET", "/metrics"), ("GET", "/status"), ("POST", "/api/v1/reload"))
    wanted = {"deploy": [200, 200, 200], "see-all": [200, 200, 403], "other": [403, 403, 403]}
    for name, codes in wanted.items():
        assert [status(gateway, path, keys[name], method) for method, path in paths] == codes, name
    assert status(gateway, "/status", None, **{"x-api-key": keys["deploy"]}) == 200
    wrong = keys["deploy"][:-3] + "abc"
    assert [status(gateway, path, wrong, method) for method, path in paths] == [401, 401, 401]
    lines = [json.loads(line) for line in (gateway.data_dir / "audit/audit.jsonl").read_text().splitlines()]
    assert [line["what"] for line in lines if line["who"] == "key deploy (api_key)"] == ["config.reload"]
    assert wrong not in (gateway.data_dir / "audit/audit.jsonl").read_text()


@pytest.mark.spec("AD-10")
@pytest.mark.usefixtures("processes")
def test_anyone_reads_metrics_if_the_config_says_so(gateway: GatewayProcess) -> None:
    assert status(gateway, "/metrics", None) == 200
    assert status(gateway, "/status", None) == 401
    assert status(gateway, "/metrics", "wrong") == 401


@pytest.mark.spec("AD-10")
@pytest.mark.usefixtures("processes")
def test_operators_follow_the_config(folder: Path, gateway: GatewayProcess, keys: dict[str, str]) -> None:
    try:
        gateway.config.write_text(CONFIG)
        gateway.wait_until(lambda: status(gateway, "/status", keys["see-all"]) == 401, 60, "the key to be refused")
        assert status(gateway, "/metrics", None) == 401
        gateway.config.write_text(CONFIG + OPERATORS.replace("keys.json", "nowhere.json"))
        gateway.wait_until(lambda: "no operator of the config can call" in gateway.log(), 60, "the missing file")
        assert status(gateway, "/status", keys["see-all"]) == 401
    finally:
        gateway.config.write_text(CONFIG + OPERATORS)
    gateway.wait_until(lambda: status(gateway, "/status", keys["see-all"]) == 200, 60, "the key to be taken")


@pytest.mark.spec("AD-10")
def test_an_entry_says_who_and_which_role() -> None:
    api_key = {"api_key": {"file": "keys.json"}}
    for wrong in (
        {},
        {"role": "viewer"},
        {"authenticate": [api_key]},
        {"authenticate": [api_key], "anonymous": True, "role": "viewer"},
        {"anonymous": True, "role": "operator"},
        {"anonymous": True, "role": "viewer", "roles": [{"role": "admin"}]},
        {"authenticate": [api_key], "role": "root"},
    ):
        with pytest.raises(ValidationError):
            OperatorsConfig.model_validate(wrong)


@pytest.mark.spec("AD-10")
def test_of_several_roles_the_highest_counts() -> None:
    roles = [
        {"role": "viewer", "from": ["anna@*", "dora@*"]},
        {"role": "admin", "claims": {"groups": "admins", "verified": True}},
        {"role": "operator", "claims": {"team": "ops"}},
    ]
    entry = OperatorsConfig.model_validate({"authenticate": ["x"], "roles": roles})

    def role(subject: str, **claims: object) -> str | None:
        return entry.role_of(Identity(subject, "oidc", "user", claims))

    assert role("anna@example.org") == "viewer"
    assert role("not-anna@example.org") is None
    assert role("bert", team="ops") == "operator"
    assert role("bert", team=["dev", "ops"]) == "operator"
    assert role("bert", team="devops") is None
    assert role("carl", groups=["admins"], verified=True) == "admin"
    assert role("carl", groups=["admins"]) is None
    assert role("carl", groups="admins-of-nothing", verified=True) is None
    assert role("dora@example.org", groups=["admins"], verified=True, team="ops") == "admin"
    assert RoleConfig.model_validate({"role": "viewer"}).fits(Identity("x", "y"))
