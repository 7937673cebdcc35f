"""What a source does with a message that it can't read because this machine is short of memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest
from gateway_transport.not_an_event import NotAnEventConfig, handle, what_to_do

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.outcome import Outcome

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"")


def done_with(what: Literal["dead_letter", "wrap", "drop"], cause: Exception | None) -> list[str]:
    error = Refused("the codec failed")
    error.__cause__ = cause
    done: list[str] = []

    def dead_letter(event: Event, token: int, outcome: Outcome) -> None:
        done.append("dead_letter")

    handover: Any = SimpleNamespace(
        intake=SimpleNamespace(refuse=lambda error: done.append("refuse")),
        skip=lambda token: done.append("drop"),
        take=lambda event, token: done.append("wrap"),
        dead_letter=dead_letter,
    )
    handle(NotAnEventConfig(not_an_event=what), handover, EVENT, 1, error)
    return done


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("what", ["dead_letter", "wrap", "drop"])
@pytest.mark.parametrize("cause", [MemoryError(), SystemError("error return without exception set")])
def test_a_message_that_memory_is_too_short_for_goes_to_the_dead_letter(
    what: Literal["dead_letter", "wrap", "drop"], cause: Exception
) -> None:
    assert done_with(what, cause) == ["dead_letter"]


@pytest.mark.spec("SAFE-34")
def test_an_option_of_one_transport_counts_as_little() -> None:
    error = Refused("the codec failed")
    assert what_to_do("reject", error) == "reject"
    error.__cause__ = MemoryError()
    assert what_to_do("reject", error) == "dead_letter"


def test_others_go_where_the_config_says() -> None:
    assert done_with("drop", None) == ["refuse", "drop"]
    assert done_with("drop", KeyError("x")) == ["refuse", "drop"]
    assert done_with("wrap", None) == ["wrap"]
