"""A trigger whose subscriber is a function: a real gateway, a real function."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import GatewayProcess, Received, Subscriber

from tests import web
from tests.fn.functions import event_in, failing, letters, returned

CONFIG = """
brokers:
  default:
    ingress:
      - http: {{listen: "127.0.0.1:0", codec: fn}}
    delivery: {{retry: 3, backoff_delay_s: 0.05}}
triggers:
  function:
    filter: {{kind: call}}
    subscriber: {{fn: {{function: "{function}", version: "0.1"}}}}
  late:
    filter: {{kind: late}}
    subscriber: {{fn: {{function: "{function}", deadline_s: 0.2}}}}
    delivery: {{retry: 1000}}
  replies:
    filter: {{eventType: com.example.answer}}
    subscriber: {{http: {{url: "{replies}", codec: fn}}}}
"""


def post(gateway: GatewayProcess, id: str, kind: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t", "ce-kind": kind}
    assert web.post(gateway.ingress(), headers=headers, json={"id": id}, verify=False).status_code == 202


@pytest.mark.spec("FN-10", "FN-11", "FN-12", "FN-13", "FN-14")
@pytest.mark.usefixtures("processes")
def test_events_go_one_way_with_replies_errors_and_deadlines(tmp_path: Path) -> None:
    calls: Counter[str] = Counter()

    def decide(received: Received) -> Any:
        event = event_in(received)
        id = event.get("eventID") or event["id"]
        calls[id] += 1
        if id == "answered":
            return returned(eventType="com.example.answer", eventID="mine", data={"to": event["data"]})
        return failing("no such order") if id == "failing" else 503 if id == "late" else 202

    function, replies = Subscriber(decide=decide), Subscriber()
    g = GatewayProcess(CONFIG.format(function=function.url, replies=replies.url), tmp_path)
    with function, replies, g:
        post(g, "answered", "call")
        post(g, "silent", "call")
        (reply,) = (event_in(r) for r in replies.wait_for(1))
        assert (reply["source"], reply["data"]) == (function.url, {"to": {"id": "answered"}})
        assert reply["eventID"] != "mine"
        called = event_in(next(r for r in function.wait_for(2) if event_in(r)["eventID"] == "silent"))
        assert called["extensions"]["ioFnProjectDeadline"] > "20"
        assert (called["cloudEventsVersion"], called["data"]) == ("0.1", {"id": "silent"})

        post(g, "failing", "call")
        g.wait_until(lambda: letters(tmp_path), what="the dead letter")
        (letter,) = letters(tmp_path)
        assert (letter["id"], letter["tidegatereason"]) == ("failing", "no such order")
        assert calls["failing"] == letter["tidegateattempts"] == 4

        post(g, "late", "late")
        g.wait_until(lambda: len(letters(tmp_path)) == 2, what="the second dead letter")
        letter = letters(tmp_path)[1]
        assert letter["id"] == "late"
        assert letter["tidegatereason"].startswith("past its deadline: ")
        assert calls["late"] >= 1
        assert g.trigger("function")["delivered"] == 2
