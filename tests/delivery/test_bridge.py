"""A bridge: the source is acknowledged when the sink has the event, or told why not."""

from __future__ import annotations

import pytest
from gateway_testing import FakeClock, ScriptedSink

from gateway_core.contract import filters
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.errors import NotDelivered, Overloaded, Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Filter, Outcome
from gateway_core.delivery import Budget, Subscription
from gateway_core.delivery.deliveries import OrderKeyOf
from gateway_core.pipeline.bridge import Bridge

BUSY = Outcome(False, retry=True, code=503, reason="503 Service Unavailable", retry_after_s=7)


def bridge(
    sink: ScriptedSink,
    filter: Filter | None = None,
    letters: ScriptedSink | None = None,
    budget: Budget | None = None,
    order_key_of: OrderKeyOf | None = None,
) -> Bridge:
    made = Bridge("b", filter)
    made.subscription = Subscription(
        *("b", sink, DeliveryConfig(retry=0), FakeClock()),
        dead_letter=letters,
        give_back=made.give_back,
        left=made.left,
        budget=budget,
        order_key_of=order_key_of,
    )
    made.subscription.feed = made
    return made


def events(*ids: str) -> list[Event]:
    return [Event({"specversion": "1.0", "id": i, "source": "/t", "type": i}) for i in ids]


def test_events_that_came_together_are_acknowledged_together_and_late() -> None:
    sink = ScriptedSink(hold=True)
    b, answers = bridge(sink), []
    b.accept(events("1", "2"), answers.append)
    sink.answer()
    assert answers == []
    sink.answer()
    assert answers == [None]
    assert (b.accepted, b.lag()) == (2, 0)


def test_the_source_is_told_of_a_failure_and_how_long_to_wait() -> None:
    b, answers = bridge(ScriptedSink(default=BUSY)), []
    b.accept(events("1"), answers.append)
    (error,) = answers
    assert isinstance(error, Overloaded)
    assert error.retry_after_s == 7
    assert "503" in str(error)
    assert b.failed == 1


@pytest.mark.spec("SAFE-41")
def test_the_source_is_told_that_a_refusal_is_final() -> None:
    b, answers = bridge(ScriptedSink(default=Outcome(False, code=400, reason="400 Bad Request"))), []
    b.accept(events("1"), answers.append)
    (error,) = answers
    assert isinstance(error, NotDelivered)
    assert (error.code, error.status) == (400, 422)
    assert "400 Bad Request" in str(error)


@pytest.mark.spec("SAFE-41")
@pytest.mark.parametrize("first", [0, 1])
def test_of_a_group_one_that_may_succeed_later_decides(first: int) -> None:
    sink = ScriptedSink(hold=True)
    b, answers = bridge(sink), []
    b.accept(events("1", "2", "3"), answers.append)
    outcomes = [BUSY, Outcome(False, code=400, reason="400")]
    sink.answer(outcomes[first])
    sink.answer(outcomes[1 - first])
    sink.answer()
    assert isinstance(answers[0], Overloaded)
    assert answers[0].retry_after_s == 7


def test_with_a_dead_letter_the_event_is_safe_and_the_source_is_acknowledged() -> None:
    letters = ScriptedSink()
    b, answers = bridge(ScriptedSink(default=BUSY), letters=letters), []
    b.accept(events("1"), answers.append)
    assert answers == [None]
    assert [e.attributes["id"] for e in letters.sent] == ["1"]


def test_events_that_no_filter_wants_are_acknowledged_and_counted() -> None:
    sink = ScriptedSink()
    b, answers = bridge(sink, filters.attributes_filter({"type": "yes"})), []
    b.accept(events("yes", "no"), answers.append)
    b.accept(events("no"), answers.append)
    assert answers == [None, None]
    assert [e.attributes["id"] for e in sink.sent] == ["yes"]
    assert b.unwanted == 2


@pytest.mark.slow
def test_a_full_bridge_says_so_and_takes_none_of_the_group() -> None:
    sink = ScriptedSink(hold=True)
    b, answers = bridge(sink), []
    b.accept(events(*map(str, range(10_000))), answers.append)
    b.accept(events("more"), answers.append)
    (error,) = answers
    assert isinstance(error, Overloaded)
    assert b.lag() == 10_000


def test_memory_that_is_used_up_within_a_group_is_told_to_the_source() -> None:
    sink = ScriptedSink(hold=True)
    b, answers = bridge(sink, budget=Budget(100_000)), []
    b.accept([Event({**e.attributes}, b"x" * 10_000) for e in events(*map(str, range(30)))], answers.append)
    while sink.held:
        sink.answer()
    (error,) = answers
    assert isinstance(error, Overloaded)
    assert b.lag() == 0


def test_one_event_of_a_group_without_an_order_key_is_given_back_and_the_others_are_delivered() -> None:
    def key_of(event: Event) -> str:
        if event.attributes["id"] == "2":
            raise ValueError("no key")
        return "key"

    sink = ScriptedSink(hold=True)
    b, answers = bridge(sink, order_key_of=key_of), []
    b.accept(events("1", "2", "3"), answers.append)
    assert (b.failed, b.lag(), answers) == (1, 2, [])
    assert [e.attributes["id"] for e in sink.sent] == ["1"], "the third waits for the first"
    sink.answer()
    sink.answer()
    (error,) = answers
    assert isinstance(error, NotDelivered)
    assert "no key" in str(error)
    assert [e.attributes["id"] for e in sink.sent] == ["1", "3"]
    assert (b.accepted, b.failed, b.lag(), b.subscription.held) == (2, 1, 0, 0)


def test_events_before_one_that_fails_within_a_group_are_attempted_all_the_same() -> None:
    class Unreadable:
        def __str__(self) -> str:
            raise MemoryError

    sink = ScriptedSink()
    b = bridge(sink)
    group = events("1", "2", "3")
    group[2].attributes["odd"] = Unreadable()
    with pytest.raises(MemoryError):
        b.accept(group, lambda error: None)
    assert [e.attributes["id"] for e in sink.sent] == ["1", "2"]


def test_refusals_are_counted() -> None:
    b = bridge(ScriptedSink())
    b.refuse(Refused("no"))
    assert b.refused == 1


@pytest.mark.spec("SAFE-81")
def test_while_the_sink_asks_for_a_pause_each_sender_is_told_so_at_once() -> None:
    sink = ScriptedSink([BUSY])
    b, answers = bridge(sink), []
    clock = b.subscription.clock
    assert isinstance(clock, FakeClock)
    b.accept(events("1"), answers.append)
    clock.advance(3)
    b.accept(events("2"), answers.append)
    assert [e.retry_after_s for e in answers] == [7, 4]
    clock.advance(4)
    b.accept(events("3"), answers.append)
    assert answers[2:] == [None]
    assert [e.attributes["id"] for e in sink.sent] == ["1", "3"]


@pytest.mark.spec("SAFE-81")
@pytest.mark.parametrize("order_key_of", [None, lambda event: "k"])
def test_senders_whose_events_wait_already_are_told_of_a_pause(order_key_of: OrderKeyOf | None) -> None:
    sink = ScriptedSink(hold=True)
    b, answers = bridge(sink, order_key_of=order_key_of), []
    for number in range(70):  # more than may be in flight at once
        b.accept(events(str(number)), answers.append)
    under_way = len(sink.held)
    sink.answer(BUSY)
    assert [e.retry_after_s for e in answers] == [7] * (70 - under_way + 1)
    while sink.held:
        sink.answer()
    assert len(answers) == 70
    assert b.lag() == 0


class Sender:
    def __init__(self) -> None:
        self.gone = False
        self.answers: list[BaseException | None] = []

    def left(self) -> bool:
        return self.gone

    def done(self, error: BaseException | None) -> None:
        self.answers.append(error)


@pytest.mark.spec("SAFE-81")
def test_no_attempt_begins_for_a_sender_that_has_left() -> None:
    sink = ScriptedSink(hold=True)
    b = bridge(sink, order_key_of=lambda event: "k")
    first, second, third = senders = Sender(), Sender(), Sender()
    for number, sender in enumerate(senders):
        b.accept(events(str(number)), sender.done)
    second.gone = True
    sink.answer()
    sink.answer()
    assert [e.attributes["id"] for e in sink.sent] == ["0", "2"]
    assert (first.answers, third.answers) == ([None], [None])
    (error,) = second.answers
    assert isinstance(error, Overloaded)
    assert b.lag() == 0
