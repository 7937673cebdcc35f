"""Explain, asked of a running gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway_testing.process import GatewayProcess

from tests import web
from tests.command_line import tidegate

pytestmark = pytest.mark.usefixtures("processes")


CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}], dead_letter: "http://127.0.0.1:9/dead"}}
triggers:
  paid: {filter: {type: invoice.paid}, subscriber: "http://127.0.0.1:9/paid"}
bridges:
  direct: {source: {http: {listen: "127.0.0.1:0"}}, sink: "http://127.0.0.1:9/direct"}
"""
PAID = {"specversion": "1.0", "id": "1", "source": "/s", "type": "invoice.paid", "data": {"n": 1.10}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def ask(gateway: GatewayProcess, question: Any, media: str = "application/json") -> httpx.Response:
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    headers = {"content-type": media, **gateway.admin_headers}
    return web.post(f"{gateway.admin_url}/api/v1/explain", content=body, headers=headers, verify=False)


@pytest.mark.parametrize(
    "event",
    [PAID, {**PAID, "type": "other"}, {**PAID, "id": ""}, {**PAID, "data": {"a": "\ud83d"}}],
    ids=["wanted", "not", "none", "half a surrogate pair"],
)
def test_a_running_gateway_says_what_its_config_says(gateway: GatewayProcess, event: dict[str, Any]) -> None:
    text = json.dumps(event)
    asked = tidegate("explain", "-", "--data-dir", gateway.data_dir, "--json", text=text)
    offline = tidegate("explain", "-", gateway.config, "--json", text=text)
    assert (asked.returncode, told(asked.stdout)) == (offline.returncode, told(offline.stdout))


def told(text: str) -> Any:
    """The explanation, with headers in one order: theirs is that of the attributes, and a JSON object has none."""
    found = json.loads(text)
    for way in found["deliveries"]:
        way["message"]["headers"].sort()
    return found


def test_the_data_is_told_as_it_came(gateway: GatewayProcess) -> None:
    body = b'{"event": {"specversion": "1.0", "id": "1", "source": "/s", "type": "invoice.paid", "data": {"n":  1.10}}}'
    (paid,) = [way for way in ask(gateway, body).json()["deliveries"] if way["name"] == "paid"]
    assert paid["message"]["body"] == '{"n":  1.10}'


def test_only_what_was_asked_for(gateway: GatewayProcess) -> None:
    found = ask(gateway, {"event": PAID, "broker": "direct"}).json()
    assert [way["name"] for way in found["deliveries"]] == ["direct"]


@pytest.mark.parametrize(
    ("question", "status", "detail"),
    [
        ({"event": PAID, "trigger": "nobody"}, 404, "there is no trigger 'nobody'; there are: paid"),
        ({"event": PAID, "broker": "nobody"}, 404, "there is no broker or bridge 'nobody'; there are: default, direct"),
        ({"event": 7}, 422, "not an event in JSON"),
        ({"evnt": PAID}, 422, "the body is not valid"),
    ],
)
def test_what_it_can_not_answer_is_a_problem(gateway: GatewayProcess, question: Any, status: int, detail: str) -> None:
    answer = ask(gateway, question)
    assert (answer.status_code, detail in answer.json()["detail"]) == (status, True)


def test_it_takes_json_only(gateway: GatewayProcess) -> None:
    assert ask(gateway, {"event": PAID}, "application/yaml").status_code == 415


def test_files_and_a_running_gateway_are_not_asked_together(gateway: GatewayProcess) -> None:
    ran = tidegate("explain", "-", gateway.config, "--data-dir", gateway.data_dir, text=json.dumps(PAID))
    assert (ran.returncode, "a running gateway has its own config" in ran.stderr) == (2, True)


def test_the_topology_is_that_of_the_config(gateway: GatewayProcess) -> None:
    drawn = tidegate("graph", "--data-dir", gateway.data_dir, "--format", "json")
    found = json.loads(drawn.stdout)
    assert (drawn.returncode, found) == (0, gateway.admin("/api/v1/graph").json())
    titles = [(node["kind"], node["title"]) for node in found["nodes"]]
    assert {("broker", "default"), ("trigger", "paid"), ("bridge", "direct"), ("dead_letter", "http")} <= set(titles)
    (source,) = [n for n in found["nodes"] if n["id"] == "source:default/0"]
    assert source["detail"] == [gateway.ingress()]
    svg = gateway.admin("/api/v1/graph.svg")
    assert (svg.headers["content-type"], svg.text.startswith("<svg ")) == ("image/svg+xml", True)
    assert tidegate("graph", "--data-dir", gateway.data_dir).stdout.startswith("flowchart LR\n")
