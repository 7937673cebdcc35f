"""A sink with spans around its attempts can do what the sink itself can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gateway_testing import ScriptedSink

from gateway_core.contract.capabilities import ClassifiesResponses, DeadLetterStore, Previewing
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.outcome import Outcome
from gateway_core.contract.tracing import Origin, SendContext
from gateway_core.pipeline.tracing import TracedSink


class Silent:
    """A tracer that records nothing."""

    def received(self, origin: Origin, events: Any) -> Callable[[BaseException | None], None]:
        return lambda error: None

    def refused(self, origin: Origin, error: Refused) -> None: ...

    def sending(self, context: SendContext, event: Event, attempt: int) -> tuple[str | None, Callable[[Outcome], None]]:
        return None, lambda outcome: None

    def sending_batch(self, context: SendContext, events: Any) -> tuple[str | None, Callable[[Outcome], None]]:
        return None, lambda outcome: None


class Able(ScriptedSink):
    def preview(self, event: Event) -> Message:
        return Message([], event.data)

    def classify(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Outcome:
        return Outcome(status < 300)

    def entries(self) -> Any:
        return iter([("1", Event({}))])

    def remove(self, ids: Any) -> int:
        return len(ids)


@pytest.mark.parametrize("protocol", [Previewing, ClassifiesResponses, DeadLetterStore])
def test_it_can_what_the_sink_can_and_no_more(protocol: Any) -> None:
    context = SendContext("deliver", "t", "b", str)
    assert isinstance(TracedSink(Able(), Silent(), context), protocol)
    assert not isinstance(TracedSink(ScriptedSink(), Silent(), context), protocol)


def test_it_asks_the_sink() -> None:
    traced: Any = TracedSink(Able(), Silent(), SendContext("deliver", "t", "b", str))
    assert traced.preview(Event({}, b"x")).body == b"x"
    assert (traced.classify(503, [], b"").delivered, traced.remove(["1"]), next(traced.entries())[0]) == (False, 1, "1")
