"""What policies refuse is counted and in the audit log with the sender's address, at each kind of ingress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_testing import Subscriber

from tests.access.policy_rig import Rig, event, running
from tests.websocket.far import ACK, PLAIN
from tests.websocket.rig import client

pytestmark = pytest.mark.anyio

WEBSOCKET = "tidegate_websocket_denied_total"
ONLY_ANN = "policies: {p: {brokers: [default], from: [ann], filters: [{exact: {type: t}}]}}\n"


def _config(ingress: str, more: str = "") -> str:
    return f"brokers: {{default: {{ingress: [{ingress}]}}}}\ntriggers: {{all: {{subscriber: far}}}}\n{more}{ONLY_ANN}"


def _denied(folder: Path) -> list[tuple[str, str, int]]:
    """The denied attempts in the audit log: who, from where, status."""
    lines = [json.loads(line) for file in folder.rglob("audit.jsonl") for line in file.read_text().splitlines()]
    return [(line["who"], line["where"], line["status"]) for line in lines if line["result"] == "denied"]


def _counts(rig: Rig) -> Mapping[str, Mapping[str, float]]:
    source: Any = rig.gateway.topology.brokers["default"].sources[0]
    found: Mapping[str, Mapping[str, float]] = source.metrics()
    return found


@pytest.mark.slow
@pytest.mark.spec("PO-13")
async def test_http(tmp_path: Path) -> None:
    async with running(_config("http: {listen: '127.0.0.1:0', authenticate: [word]}"), tmp_path) as (rig, http):
        for who, type, status in (("bob", "t", 403), ("ann", "u", 403), ("ann", "t", 202)):
            assert (await rig.post(http, who, {"type": type})).status_code == status
        counts = _counts(rig)
        assert counts["tidegate_http_denied_total"] == {"403": 2}
        assert counts["tidegate_http_denied_by_sender_total"] == {"bob (word)": 1, "ann (word)": 1}
        assert _denied(tmp_path) == [("bob", "127.0.0.1", 403), ("ann", "127.0.0.1", 403)]


@pytest.mark.slow
@pytest.mark.spec("PO-13")
async def test_fn(tmp_path: Path) -> None:
    returned = {"specversion": "1.0", "id": "1", "source": "/f", "type": "t"}
    answer = 200, {"content-type": "application/cloudevents+json"}, json.dumps(returned).encode()
    with Subscriber(decide=lambda received: answer) as function:
        called = f"function: {{http: {{url: '{function.url}', codec: fn}}}}, version: '1.0'"
        ingress = f"fn: {{listen: '127.0.0.1:0', {called}, authenticate: [word]}}"
        async with running(_config(ingress), tmp_path) as (rig, http):
            for who, status in (("bob", 403), ("ann", 204)):
                headers = {"x-word": json.dumps({"subject": who}), "content-type": "text/plain"}
                assert (await http.post(rig.url(), content="x", headers=headers)).status_code == status
            assert _counts(rig)["tidegate_fn_denied_total"] == {"403": 1}
            assert _denied(tmp_path) == [("bob", "127.0.0.1", 403)]


@pytest.mark.spec("PO-13")
@pytest.mark.parametrize("subprotocol", [ACK, PLAIN])
async def test_websocket(subprotocol: str, tmp_path: Path) -> None:
    """Nothing of what is refused comes in, not even as a dead letter."""
    ingress = "websocket: {listen: '127.0.0.1:0', acknowledge: optional, authenticate: [word]}"
    async with running(_config(ingress), tmp_path) as (rig, _):
        headers = {"x-word": json.dumps({"subject": "ann"})}
        async with client(rig.url(), subprotocol, additional_headers=headers) as connection:
            for type in ("u", "t", "u", "t"):
                await connection.send(json.dumps(event(type=type)))
            with anyio.fail_after(60):
                while rig.accepted() < 2 or sum(_counts(rig)[WEBSOCKET].values()) < 2:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
        (broker,) = rig.gateway.status().brokers
        assert (broker.accepted, broker.dead_lettered) == (2, 0)
        assert _denied(tmp_path) == [("ann", "127.0.0.1", 403)] * 2


@pytest.mark.spec("PO-13")
@pytest.mark.parametrize("where", ["allow", "policies"])
async def test_what_a_websocket_wraps_needs_to_be_allowed_too(where: str, tmp_path: Path) -> None:
    own = "allow: [{from: [ann], filters: [{exact: {type: t}}]}, {from: [cid]}]" if where == "allow" else ""
    rules = (
        ""
        if own
        else "policies: {p: {brokers: all, from: [ann], filters: [{exact: {type: t}}]}, q: {brokers: all, from: [cid]}}"
    )
    options = f"listen: '127.0.0.1:0', acknowledge: optional, authenticate: [word], not_an_event: wrap, {own}"
    text = f"brokers: {{default: {{ingress: [websocket: {{{options}}}]}}}}\n{rules}\n"
    async with running(text, tmp_path) as (rig, _):
        for who in ("ann", "cid"):
            headers = {"x-word": json.dumps({"subject": who})}
            async with client(rig.url(), PLAIN, additional_headers=headers) as connection:
                await connection.send("not an event")
        with anyio.fail_after(60):
            while rig.accepted() < 1 or not _counts(rig)[WEBSOCKET]:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        (broker,) = rig.gateway.status().brokers
        assert (broker.accepted, broker.dead_lettered) == (1, 0)
        assert _denied(tmp_path) == [("ann", "127.0.0.1", 403)]
