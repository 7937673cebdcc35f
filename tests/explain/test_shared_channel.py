"""What `why` says of events of a channel that other gateways share, and that keeps no list of what was given up."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_inspect.delivery_state import state_of

pytestmark = [pytest.mark.pure, pytest.mark.spec("SAFE-90")]

DELIVERY = {"matched": True, "dead_letter": "kafka://k:9092/undelivered"}
GIVEN_UP = {"at": "then", "to": "kafka://k/dead", "reason": "503", "attempts": 2, "code": 503, "delivered": None}


def told(delivery_state: str | None, *, lately: bool = False, **known: Any) -> tuple[str, str]:
    where = {
        "delivery_state": delivery_state,
        "held": None,
        "failures": [],
        "given_up": None,
        "complete": True,
        **known,
    }
    found = state_of(DELIVERY, where, None, None, True, shared=True, lately=lately)
    return found["state"], found["text"]


def test_what_another_gateway_reads_is_not_known_here_and_it_is_said_whom_to_ask() -> None:
    state, text = told(None)
    assert (state, "another gateway" in text, "tidegate why ID --admin HOST:PORT" in text) == ("unknown", True, True)


def test_what_was_settled_before_the_start_is_not_called_delivered() -> None:
    state, text = told("passed")
    assert (state, "given up and sent to kafka://k:9092/undelivered" in text) == ("settled", True)
    assert told("passed", lately=True, complete=False)[0] == "settled"


def test_what_came_while_this_gateway_ran_is_known() -> None:
    assert told("passed", lately=True)[0] == "delivered"
    assert told("passed", failures=[{}])[0] == "delivered"
    assert told("passed", given_up=GIVEN_UP)[0] == "given_up"
    assert told("pending")[0] == "in_flight"
    assert told("unread")[0] == "waiting"
