"""What `why` says of events of a channel that other gateways share, and that keeps no list of what was given up."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_inspect.delivery_state import merged, state_of

pytestmark = [pytest.mark.pure, pytest.mark.spec("SAFE-90", "SAFE-230")]

DELIVERY = {"matched": True, "dead_letter": "kafka://k:9092/undelivered"}
GIVEN_UP = {"at": "then", "to": "kafka://k/dead", "reason": "503", "attempts": 2, "code": 503, "delivered": None}


def facts(delivery_state: str | None, **known: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"held": None, "failures": [], "given_up": None, "complete": True}
    return {**plain, "delivery_state": delivery_state, **known}


def told(delivery_state: str | None, **known: Any) -> tuple[str, str]:
    found = state_of(DELIVERY, facts(delivery_state, **known), None, None, True, shared=True)
    return found["state"], found["text"]


def test_what_another_gateway_reads_is_not_known_here_and_it_is_said_whom_to_ask() -> None:
    for failures in range(2):  # after a failure here, another gateway may have got the event
        state, text = told(None, failures=[{}] * failures)
        assert (state, "another gateway" in text, "tidegate why ID --admin HOST:PORT" in text) == (
            "unknown",
            True,
            True,
        )


def test_what_another_gateway_may_have_settled_is_not_called_delivered() -> None:
    state, text = told("settled")
    assert (state, "given up and sent to kafka://k:9092/undelivered" in text) == ("settled", True)
    assert told("settled", failures=[{}])[0] == "settled"
    assert told("passed", complete=False)[0] == "settled"


def test_what_this_gateway_settled_is_known() -> None:
    assert told("passed")[0] == "delivered"
    assert told("passed", failures=[{}])[0] == "delivered"
    assert told("passed", given_up=GIVEN_UP)[0] == "given_up"
    assert told("settled", given_up=GIVEN_UP)[0] == "given_up"
    assert told("pending")[0] == "in_flight"
    assert told("unread")[0] == "waiting"
    assert told("before")[0] == "before"


def test_the_worker_that_settled_it_knows_best() -> None:
    for states in (("settled", "passed"), ("passed", "unread"), (None, "passed")):
        for first, second in (states, states[::-1]):
            assert merged([{"t": facts(first)}, {"t": facts(second)}])["t"]["delivery_state"] == "passed"
