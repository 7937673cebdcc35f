"""Who may call which route: a matrix of all routes and all roles, made from the route table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_admin.watching import described, watching_routes
from gateway_api.roles import ROLES, Role, may
from gateway_api.routes import Route
from gateway_api.tokens import derived, read_token
from gateway_testing import GatewayProcess

from gateway_core.config.registry import Registry
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.admin_routes import all_routes

CONFIG = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
triggers: {own: {subscriber: "http://127.0.0.1:9/", filter: {type: none}}}
"""
ELSEWHERE = {"name": "nobody", "id": "nothing"}

ROUTES: dict[str, Role | None] = {
    "GET /health/live": None,
    "GET /health/ready": None,
    "GET /health/startup": None,
    "GET /metrics": "metrics",
    "GET /status": "viewer",
    "GET /openapi.json": "viewer",
    "GET /api/v1/brokers": "viewer",
    "GET /api/v1/brokers/{name}": "viewer",
    "GET /api/v1/triggers": "viewer",
    "GET /api/v1/triggers/{name}": "viewer",
    "GET /api/v1/bridges": "viewer",
    "GET /api/v1/bridges/{name}": "viewer",
    "GET /api/v1/policies": "viewer",
    "GET /api/v1/policies/{name}": "viewer",
    "GET /api/v1/graph": "viewer",
    "GET /api/v1/graph.svg": "viewer",
    "GET /api/v1/events": "viewer",
    "GET /api/v1/tap": "viewer",
    "POST /api/v1/explain": "viewer",
    "GET /api/v1/dead-letters": "viewer",
    "GET /api/v1/dead-letters/{id}": "viewer",
    "GET /api/v1/replays": "viewer",
    "GET /api/v1/replays/{id}": "viewer",
    "POST /api/v1/replays": "operator",
    "POST /api/v1/replays/{id}/cancel": "operator",
    "GET /api/v1/event-replays": "viewer",
    "GET /api/v1/event-replays/{id}": "viewer",
    "POST /api/v1/event-replays": "operator",
    "POST /api/v1/event-replays/preview": "viewer",
    "POST /api/v1/event-replays/{id}/cancel": "operator",
    "POST /api/v1/event-replays/{id}/pause": "operator",
    "POST /api/v1/event-replays/{id}/resume": "operator",
    "POST /api/v1/rewinds": "operator",
    "POST /api/v1/rewinds/preview": "viewer",
    "GET /api/v1/triggers/{name}/delayed": "viewer",
    "POST /api/v1/triggers/{name}/delayed/cancel": "operator",
    "POST /api/v1/triggers/{name}/delayed/now": "operator",
    "POST /api/v1/triggers/{name}/pause": "operator",
    "POST /api/v1/triggers/{name}/resume": "operator",
    "POST /api/v1/reload": "operator",
    "PUT /api/v1/triggers/{name}": "admin",
    "DELETE /api/v1/triggers/{name}": "admin",
    "POST /api/v1/apply": "admin",
    "POST /api/v1/console/link": "viewer",
    "GET /": None,
    "GET /console": "viewer",
    "GET /console/assets/{name}": None,
    "GET /console/config": "viewer",
    "POST /console/config/reload": "operator",
    "GET /console/events": "viewer",
    "GET /console/events/more": "viewer",
    "GET /console/events/download": "viewer",
    "GET /console/events/row": "viewer",
    "GET /console/live/events": "viewer",
    "GET /console/playground": "viewer",
    "POST /console/playground/explain": "viewer",
    "POST /console/playground/scenario": "viewer",
    "GET /console/triggers": "viewer",
    "GET /console/live/triggers": "viewer",
    "GET /console/triggers/{name}": "viewer",
    "GET /console/live/triggers/{name}": "viewer",
    "GET /console/triggers/{name}/delayed": "viewer",
    "POST /console/triggers/{name}/delayed/cancel": "operator",
    "POST /console/triggers/{name}/delayed/now": "operator",
    "POST /console/triggers/{name}/pause": "operator",
    "POST /console/triggers/{name}/resume": "operator",
    "POST /console/triggers/{name}/delete": "admin",
    "POST /console/triggers/{name}/try": "viewer",
    "GET /console/tables": "viewer",
    "GET /console/live/tables": "viewer",
    "GET /console/tables/{name}": "viewer",
    "GET /console/live/tables/{name}": "viewer",
    "GET /console/tables/{name}/rows": "viewer",
    "GET /console/catalogue": "viewer",
    "GET /console/live/catalogue": "viewer",
    "GET /console/catalogue/type": "viewer",
    "GET /console/live/catalogue/type": "viewer",
    "GET /console/catalogue/asyncapi.json": "viewer",
    "GET /console/catalogue/asyncapi.yaml": "viewer",
    "GET /console/catalogue/schema.json": "viewer",
    "GET /console/apply": "admin",
    "POST /console/apply": "admin",
    "POST /console/apply/plan": "admin",
    "GET /console/dead-letters": "viewer",
    "GET /console/dead-letters/{id}": "viewer",
    "POST /console/dead-letters/{id}/try": "viewer",
    "GET /console/dead-letters/{id}/edit": "admin",
    "POST /console/dead-letters/{id}/plan": "admin",
    "POST /console/dead-letters/{id}/edit": "admin",
    "GET /console/live/dead-letters": "viewer",
    "POST /console/replays": "operator",
    "GET /console/replays/{id}": "viewer",
    "GET /console/live/replays/{id}": "viewer",
    "POST /console/replays/{id}/cancel": "operator",
    "GET /console/event-replays": "viewer",
    "GET /console/live/event-replays": "viewer",
    "POST /console/event-replays": "operator",
    "GET /console/event-replays/{id}": "viewer",
    "GET /console/live/event-replays/{id}": "viewer",
    "POST /console/event-replays/{id}/cancel": "operator",
    "POST /console/event-replays/{id}/pause": "operator",
    "POST /console/event-replays/{id}/resume": "operator",
    "GET /console/live": "viewer",
    "GET /console/live/check": "viewer",
    "GET /console/live/overview": "viewer",
    "GET /console/live/present": "viewer",
    "GET /console/live/tap": "viewer",
    "GET /console/login": None,
    "POST /console/login": None,
    "POST /console/logout": "metrics",
}
"""What each role is for: a new route is added here by hand."""


def table(folder: Path) -> list[Route]:
    gateway = Gateway(GatewayConfig(), Settings(data_dir=folder, admin="off"), Registry.installed())
    probes = dict.fromkeys(("live", "ready", "startup"), lambda: True)
    return described([*watching_routes(gateway.status, probes, with_metrics=True), *all_routes(gateway)])


@pytest.mark.slow
@pytest.mark.spec("AD-02")
def test_every_route_has_the_role_that_was_decided(tmp_path: Path) -> None:
    routes = table(tmp_path)
    assert {f"{r.method} {r.path}": None if r.open else r.role for r in routes} == ROUTES
    assert all(r.action for r in routes if r.method != "GET" and not r.open and may(r.needs, "operator"))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def lines(gateway: GatewayProcess) -> list[dict[str, Any]]:
    file = gateway.data_dir / "audit/audit.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.spec("AD-01", "AD-02", "AD-06")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("role", [None, "wrong", *ROLES])
def test_every_route_asks_for_its_role(gateway: GatewayProcess, role: Any) -> None:
    own = read_token(gateway.data_dir)
    token = {None: "", "wrong": "x" * 43}.get(role) or (derived(own, role, f"a-{role}") if role in ROLES else "")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with web.client(base_url=gateway.admin_url, headers=headers, trust_env=False, verify=False) as client:
        for route, needed in ROUTES.items():
            method, path = route.split(" ")
            if is_page(path):
                continue
            if path == "/api/v1/tap":
                path += "?broker=nobody"
            answer = client.request(method, path.format(**ELSEWHERE))
            if needed is None:
                assert answer.status_code == 200, route
            elif role not in ROLES:
                assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer"), route
            elif not may(role, needed):
                assert answer.status_code == 403, route
                assert f"needs the role {needed}" in answer.json()["detail"]
            else:
                assert answer.status_code not in (401, 403, 500), (route, answer.text)
            if answer.status_code in (401, 403):
                assert answer.headers["content-type"] == "application/problem+json"
                last = lines(gateway)[-1]
                who = f"token a-{role}" if role in ROLES else ""
                assert (last["who"], last["where"], last["result"]) == (who, "127.0.0.1", "denied"), route


def is_page(path: str) -> bool:
    """Whether it is for browsers."""
    return path == "/" or path.startswith("/console")


@pytest.mark.spec("AD-02", "CO-01")
@pytest.mark.usefixtures("processes")
def test_every_page_asks_for_its_role(tmp_path: Path) -> None:
    with GatewayProcess(CONFIG, tmp_path) as gateway:
        own = read_token(gateway.data_dir)
        for role in (None, *ROLES):
            headers = {"authorization": f"Bearer {derived(own, role, 'anna')}"} if role else {}
            with web.client(base_url=gateway.admin_url, headers=headers, trust_env=False, verify=False) as client:
                for route, needed in ROUTES.items():
                    method, path = route.split(" ")
                    endless = "/live/" in path and needed is not None and may(role, needed)
                    if is_page(path) and not endless:
                        check_page(route, client.request(method, path.format(**ELSEWHERE)), role, needed)


def check_page(route: str, answer: httpx.Response, role: Role | None, needed: Role | None) -> None:
    """Pages send strangers to the login page, and tell others what is missing."""
    if needed is None:
        assert answer.status_code not in (403, 500), route
    elif role is None:
        assert (answer.status_code, answer.headers["location"][:14]) == (303, "/console/login"), route
    elif not may(role, needed):
        assert answer.status_code == 403, route
        assert f"needs the role {needed}" in answer.text
    else:
        assert answer.status_code not in (401, 403, 500), (route, answer.text)


@pytest.mark.spec("AD-06")
@pytest.mark.usefixtures("processes")
def test_changes_are_recorded(gateway: GatewayProcess) -> None:
    token = derived(read_token(gateway.data_dir), "admin", "anna")
    headers = {"authorization": f"Bearer {token}", "content-type": "application/yaml"}
    with web.client(base_url=gateway.admin_url, headers=headers, trust_env=False, verify=False) as client:
        path = "/api/v1/triggers/new"
        assert client.put(path, content="subscriber: http://127.0.0.1:9/").status_code == 201
        assert client.post(f"{path}/pause").status_code == 200
        assert client.post("/api/v1/apply", content="triggers: {x: {}}").status_code == 422
        assert client.delete(path).status_code == 204
    made = [line for line in lines(gateway) if line["who"] == "token anna"]
    assert [(line["what"], line["result"]) for line in made] == [
        ("trigger.apply", "done"),
        ("trigger.pause", "done"),
        ("trigger.apply", "failed"),
        ("trigger.delete", "done"),
    ]
    assert (made[0]["name"], made[0]["triggers"]) == ("new", {"new": "created"})
    assert made[2]["status"] == 422
    assert token not in (gateway.data_dir / "audit/audit.jsonl").read_text()


HOSTS = [
    *("evil.example", "evil.example.:9080", "[::1].evil.example", "[evil.example]", "localhost:evil"),
    *("127.0.0.1@evil", "localhost..", ""),
]


@pytest.mark.spec("AD-04")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example.:9080", "[::1].evil.example", "localhost:evil", "127.0.0.1@evil", "localhost..", ""],
)
def test_no_name_that_was_made_to_lead_here_is_served(gateway: GatewayProcess, host: str) -> None:
    headers = {**gateway.admin_headers, "host": host}
    answer = web.get(f"{gateway.admin_url}/health/live", verify=False, headers=headers)
    assert answer.status_code == 403
    last = lines(gateway)[-1]
    assert (last["what"], last["who"], last["result"]) == ("admin.request", "", "denied")


@pytest.mark.spec("AD-06", "AL-01")
@pytest.mark.usefixtures("processes")
def test_a_reload_from_files_is_recorded(gateway: GatewayProcess) -> None:
    def reloads() -> list[dict[str, Any]]:
        return [line for line in lines(gateway) if line["what"] == "config.reload" and line["where"] == "files"]

    before = len(reloads())
    try:
        gateway.config.write_text(CONFIG + "nonsense: {}\n")
        gateway.wait_until(lambda: len(reloads()) > before, 60, "the line of a reload")
        found = reloads()[-1]
        assert (found["result"], "unknown section `nonsense`" in found["faults"][0]) == ("failed", True)
    finally:
        gateway.config.write_text(CONFIG)
    gateway.wait_until(lambda: len(reloads()) > before + 1, 60, "the line of a reload")
    assert reloads()[-1]["result"] == "done"
