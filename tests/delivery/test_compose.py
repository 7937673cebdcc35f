"""The path of an event: the order of its steps, transforms at their three places, and no step that nobody asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from gateway_testing import ScriptedSink

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Accepted, Admission, Outcome
from gateway_core.pipeline import compose
from gateway_core.pipeline.intake import SwitchableIntake
from gateway_core.pipeline.metering import Meter
from gateway_core.pipeline.steps import Transform


class Store:
    """A broker's intake, and its channel."""

    stores = True
    deduplicates = False
    admissions: Sequence[Admission] = ()

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.refusals: list[Refused] = []

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        self.events.extend(events)
        done(None)

    append = accept

    def refuse(self, error: Refused) -> None:
        self.refusals.append(error)

    def attempted(self, event: Event, outcome: Outcome, seconds: float) -> None: ...

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None: ...

    def withdraw(self, partition: int) -> Sequence[int]:
        return ()


class Tracer:
    """Notes when spans begin."""

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps

    def received(self, origin: Any, events: Sequence[Event]) -> Callable[[BaseException | None], None]:
        self.steps.append("span")
        return lambda error: None

    def refused(self, origin: Any, error: Refused) -> None:
        self.steps.append("span of a refusal")

    def sending(self, context: Any, event: Event, attempt: int) -> tuple[str | None, Callable[[Outcome], None]]:
        self.steps.append("span")
        return "its own", lambda outcome: None

    def sending_batch(self, context: Any, events: Any) -> tuple[str | None, Callable[[Outcome], None]]:
        return None, lambda outcome: None


def event(id: str = "1", **attributes: Any) -> Event:
    return Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t", **attributes}, b"{}")


def marking(mark: str, steps: list[str] | None = None) -> Transform:
    def transform(event: Event) -> Event:
        if steps is not None:
            steps.append(mark)
        return event.with_attributes(mark=f"{event.attributes.get('mark', '')}{mark}")

    return transform


def refusing(event: Event) -> Event:
    raise Refused("no such order")


def failing(event: Event) -> Event:
    raise ZeroDivisionError


def test_without_steps_the_path_is_the_channel_and_the_sink_themselves() -> None:
    store, sink = Store(), ScriptedSink()
    intake = SwitchableIntake(store)
    assert intake.accept == store.accept
    assert intake.refuse == store.refuse
    assert compose.storing(store.append, None, None) == store.append  # type: ignore[arg-type]
    assert compose.sending(sink, "t", "b") == sink.send
    assert compose.replying("b", store.accept) == store.accept
    assert compose.giving_up(sink, "t", "b") is sink


def test_a_source_s_events_are_traced_then_admitted_then_transformed() -> None:
    steps: list[str] = []

    def admission(events: Sequence[Event]) -> Refused | None:
        steps.append(f"admitted {events[0].attributes.get('mark', 'as it came')}")
        return None

    store = Store()
    traced: Any = (Tracer(steps), object())
    intake = SwitchableIntake(store, traced, (admission,), (marking("a", steps), marking("b", steps)))
    intake.accept([event()], lambda error: steps.append(f"answered {error}"))
    assert steps == ["span", "admitted as it came", "a", "b", "answered None"]
    assert [e.attributes["mark"] for e in store.events] == ["ab"]


def test_transforms_stay_when_the_intake_gets_another_broker() -> None:
    first, second = Store(), Store()
    intake = SwitchableIntake(first, None, (), (marking("a"),))
    intake.switch_to(second)
    intake.accept([event()], lambda error: None)
    assert first.events == []
    assert [e.attributes["mark"] for e in second.events] == ["a"]


def test_what_the_gateway_knows_of_an_event_stays_with_it() -> None:
    store = Store()
    came = event()
    came.received_ns, came.position, came.trace, came.identity = 7, 5 << 48 | 3, "00-x", Identity("me", "basic")

    def renewed(event: Event) -> Event:
        return Event({**event.attributes}, b"other", key=b"k")

    SwitchableIntake(store, None, (), (renewed,)).accept([came], lambda error: None)
    made = store.events[0]
    assert (made.data, made.key) == (b"other", b"k")
    assert (made.received_ns, made.position, made.trace, made.identity) == (7, 5 << 48 | 3, "00-x", came.identity)
    assert came.data == b"{}"


@pytest.mark.parametrize(("transform", "refusals"), [(refusing, 1), (failing, 0)])
def test_if_a_transform_raises_nothing_of_the_message_is_stored(transform: Transform, refusals: int) -> None:
    def only_second(event: Event) -> Event:
        return transform(event) if event.attributes["id"] == "2" else event

    store = Store()
    answers: list[Any] = []
    SwitchableIntake(store, None, (), (only_second,)).accept([event("1"), event("2")], answers.append)
    assert store.events == []
    assert [type(answer) for answer in answers] == [Refused if refusals else ZeroDivisionError]
    assert len(store.refusals) == refusals


def test_each_attempt_is_traced_then_transformed_then_sent() -> None:
    steps: list[str] = []
    sink, outcomes = ScriptedSink(), []
    tracer: Any = Tracer(steps)
    send = compose.sending(sink, "t", "b", (marking("a", steps),), Meter(SystemClock()), tracer)
    original = event()
    send(original, 1.0, outcomes.append)
    assert steps == ["span", "a"]
    assert sink.sent[0].attributes["mark"] == "a"
    assert sink.sent[0].trace == "its own"
    assert "mark" not in original.attributes
    assert [outcome.delivered for outcome in outcomes] == [True]


def test_a_reply_is_transformed_before_it_is_stored() -> None:
    store, answers = Store(), []
    compose.replying("b", store.accept, (marking("a"),))([event()], answers.append)
    compose.replying("b", store.accept, (refusing,))([event()], answers.append)
    assert [e.attributes["mark"] for e in store.events] == ["a"]
    assert answers[0] is None
    assert isinstance(answers[1], Refused)
    assert store.refusals == []  # the reply is no input of a source


def test_the_stages_are_listed_in_the_order_of_the_path() -> None:
    names = [stage.name for stage in compose.PATH]
    assert names == ["decode", "admit", "transform", "store", "match", "transform", "encode", "send", "settle"]
