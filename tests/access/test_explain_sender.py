"""`tidegate explain --as`: it says what the gateway does with a sender's event, and which entry decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway_access.decisions import Sender
from gateway_inspect.explain import deciding

from gateway_core.cli import main
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.event import Event
from tests.access.policy_rig import config, event, running

POLICIES = (
    "{orders: {brokers: [default], from: ['key *'], filters: [{exact: {type: t}}]}, "
    "staff: {brokers: [default], claims: {realm.roles: [writer], level: 3}}, "
    "second: {brokers: [default], from: [root], authenticator: second}, "
    "marked: {brokers: [default], filters: [{exact: {authid: cid}}]}}"
)
SENDERS: list[dict[str, Any]] = [
    {"subject": "key a"},
    {"subject": "ann"},
    {"subject": "ann", "claims": {"realm": {"roles": ["writer"]}, "level": 3}},
    {"subject": "ann", "claims": {"realm": {"roles": ["writer"]}, "level": "3"}},
    {"subject": "root"},
    {"subject": "cid"},
]


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.spec("PO-15")
async def test_it_says_what_the_gateway_does(tmp_path: Path) -> None:
    options = ", auth_context: true"
    text = config(POLICIES, allow="[{from: [anonymous, '*'], filters: [{not: {exact: {type: never}}}]}]", more=options)
    async with running(text, tmp_path) as (rig, client):
        seen = set()
        for said in SENDERS:
            for by in ("word", "second"):
                for type in ("t", "u", "never"):
                    answer = await rig.post(client, said, {"type": type}, by=by)
                    sender = Sender(said["subject"], by, said.get("claims", {}))
                    decide = deciding(rig.gateway.config, rig.gateway.registry, SystemClock(), sender)
                    assert decide is not None
                    (decision,) = decide(Event(event(type=type)), None)
                    assert decision["status"] == answer.status_code, (said, by, type, decision)
                    assert decision["allowed"] == (answer.status_code == 202)
                    seen.add(answer.status_code)
        assert seen == {202, 403}


CONFIG = """\
brokers:
  default: {ingress: [http: {listen: "127.0.0.1:8080", authenticate: [{api_key: {file: k}}, {basic: {file: u}}]}]}
  fetching: {ingress: [{websocket: {url: "ws://127.0.0.1:1/"}}]}
triggers: {all: {subscriber: "http://127.0.0.1:1/"}}
policies:
  billing: {brokers: [default], from: ["key billing"], filters: [{exact: {type: invoice}}]}
  shop: {brokers: all, from: ["key shop"]}
"""


def _explained(folder: Path, *options: str, type: str = "invoice") -> int:
    (folder / "tidegate.yaml").write_text(CONFIG)
    (folder / "event.json").write_text(json.dumps(event(type=type)))
    with pytest.raises(SystemExit) as ended:
        main(["explain", str(folder / "event.json"), str(folder / "tidegate.yaml"), *options])
    return int(ended.value.code or 0)


@pytest.mark.slow
@pytest.mark.spec("PO-15")
def test_the_command_names_the_entry_that_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _explained(tmp_path, "--as", "key billing") == 0
    out = capsys.readouterr().out
    assert "sender key billing (api_key) at brokers.default.ingress[0]: let in\n" in out
    assert "  policies.billing allows it\n  policies.shop is about other senders\n" in out
    assert "brokers.fetching.ingress[0]: not asked: it fetches its events" in out
    assert _explained(tmp_path, "--as", "key billing", "--broker", "default", type="order") == 1
    out = capsys.readouterr().out
    assert "refused with 403: `key billing` may not send this event here" in out
    assert "  policies.billing is about other events\n" in out
    assert _explained(tmp_path, "--as", "anonymous", "--broker", "default") == 1
    assert "refused with 401: the request has no credentials" in capsys.readouterr().out
    assert _explained(tmp_path, "--as", "billing", "--broker", "default") == 1
    assert "refused with 401: no authenticator here knows such a sender" in capsys.readouterr().out
    assert _explained(tmp_path, "--as", "user ann", "--claim", "level=3", "--json", "--broker", "default") == 1
    (decision,) = json.loads(capsys.readouterr().out)["access"]
    assert (decision["authenticator"], decision["status"]) == ("basic", 403)
    assert _explained(tmp_path, "--claim", "a=b") == 2
    assert _explained(tmp_path, "--as", "x", "--claim", "b") == 2
    assert "sender" not in capsys.readouterr().out
