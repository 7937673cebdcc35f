"""A sink with spans around its attempts can do what the sink itself can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway_core.abilities import Judging, Previewing
from gateway_core.errors import Refused
from gateway_core.event import Event, Message
from gateway_core.interfaces import DeadLetterStore
from gateway_core.outcome import Outcome
from gateway_core.testing import ScriptedSink
from gateway_core.tracing import Errand, Origin, TracedSink


class Silent:
    """A tracer that records nothing."""

    def received(self, origin: Origin, events: Any) -> Callable[[BaseException | None], None]:
        return lambda error: None

    def refused(self, origin: Origin, error: Refused) -> None: ...

    def sending(self, errand: Errand, event: Event, attempt: int) -> tuple[str | None, Callable[[Outcome], None]]:
        return None, lambda outcome: None


class Able(ScriptedSink):
    def preview(self, event: Event) -> Message:
        return Message([], event.data)

    def judge(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Outcome:
        return Outcome(status < 300)

    def entries(self) -> Any:
        return iter([("1", Event({}))])

    def remove(self, ids: Any) -> int:
        return len(ids)


@pytest.mark.parametrize("protocol", [Previewing, Judging, DeadLetterStore])
def test_it_can_what_the_sink_can_and_no_more(protocol: Any) -> None:
    errand = Errand("deliver", "t", "b", str)
    assert isinstance(TracedSink(Able(), Silent(), errand), protocol)
    assert not isinstance(TracedSink(ScriptedSink(), Silent(), errand), protocol)


def test_it_asks_the_sink() -> None:
    traced: Any = TracedSink(Able(), Silent(), Errand("deliver", "t", "b", str))
    assert traced.preview(Event({}, b"x")).body == b"x"
    assert (traced.judge(503, [], b"").delivered, traced.remove(["1"]), next(traced.entries())[0]) == (False, 1, "1")
