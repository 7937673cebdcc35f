"""One subscription: attempts, waits, limits, dead letters; time is a fake clock's."""

from __future__ import annotations

from base64 import b64decode

import pytest
from gateway_testing import FakeClock, MemoryFeed, ScriptedSink
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.backoff import ceiling_s, wait_s
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.dead_letter_facts import without_facts
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.outcome import Stage
from gateway_core.delivery import Budget, Subscription

BUSY = Outcome(False, retry=True, code=503, data=b"come back later", reason="503 Service Unavailable")
BAD = Outcome(False, code=400, data=b"no", reason="400 Bad Request")


def event(n: int, size: int = 10) -> Event:
    return Event(
        {"specversion": "1.0", "id": str(n), "source": "/t", "type": "t"}, b"x" * size, received_ns=1, position=n
    )


class Rig:
    """A subscription with its surroundings in memory. Waits take their full ceiling (`draw` is 1)."""

    def __init__(self, sink: ScriptedSink, letters: ScriptedSink | None = None, **policy: object) -> None:
        self.clock = FakeClock()
        self.sink = sink
        self.letters = letters or ScriptedSink(address="letters:")
        self.feed = MemoryFeed()
        self.budget = Budget(10_000_000)
        self.subscription = Subscription(
            "t",
            sink,
            DeliveryConfig(**policy),  # type: ignore[arg-type]
            self.clock,
            dead_letter=self.letters,
            budget=self.budget,
            draw=lambda: 1.0,
        )
        self.subscription.feed = self.feed

    def offer(self, *numbers: int) -> None:
        for n in numbers:
            assert self.subscription.offer(event(n))


def test_what_a_subscription_counts_is_its_own() -> None:
    idle, failing, stopped = Rig(ScriptedSink()), Rig(ScriptedSink([BAD])), Rig(ScriptedSink())
    stopped.subscription.stop()  # before it had any event
    refused = Rig(ScriptedSink(), ScriptedSink([BUSY]))  # of its source, also before it had any
    assert refused.subscription.dead_letters is not None
    refused.subscription.dead_letters.write(event(4), BAD, "source", lambda error: None)
    assert "503" in str(refused.subscription.failures.last)
    failing.offer(1)
    assert (failing.subscription.attempts, failing.subscription.failures.last) == (1, "400 Bad Request")
    assert (idle.subscription.attempts, idle.subscription.failures.last) == (0, None)
    idle.offer(2)
    assert (idle.subscription.attempts, failing.subscription.attempts) == (1, 1)
    assert not stopped.subscription.offer(event(3))


def test_a_delivered_event_is_acknowledged_once() -> None:
    rig = Rig(ScriptedSink())
    rig.offer(1, 2)
    assert rig.feed.acked == [1, 2]
    assert (rig.subscription.delivered, rig.subscription.attempts, rig.subscription.held) == (2, 2, 0)


@pytest.mark.spec("DP-17", "DP-18")
@pytest.mark.parametrize(
    ("backoff", "expected"),
    [("exponential", [0.2, 0.4, 0.8, 1.0, 1.0]), ("linear", [0.2, 0.4, 0.6, 0.8, 1.0])],
)
def test_retries_wait_by_the_documented_formula_then_dead_letter(backoff: str, expected: list[float]) -> None:
    sink = ScriptedSink(default=BUSY)
    rig = Rig(sink, retry=5, backoff=backoff, backoff_delay_s=0.2, backoff_max_s=1.0)
    rig.offer(7)
    waits = []
    while (wait := rig.clock.next_timer()) is not None:
        waits.append(round(wait, 9))
        rig.clock.advance(wait)
    assert waits == expected
    assert len(sink.sent) == 6
    assert [e.attributes["id"] for e in rig.letters.sent] == ["7"]
    assert rig.feed.acked == [7]


@given(
    st.sampled_from(["exponential", "linear"]),
    st.floats(0, 60),
    st.floats(0, 60),
    st.integers(1, 1000),
    st.floats(0, 1, exclude_max=True),
)
def test_every_wait_is_in_the_upper_half_of_a_growing_capped_ceiling(
    kind: str, delay: float, cap: float, n: int, draw: float
) -> None:
    policy = DeliveryConfig(backoff=kind, backoff_delay_s=delay, backoff_max_s=cap)  # type: ignore[arg-type]
    ceiling = ceiling_s(policy, n)
    assert ceiling / 2 <= wait_s(policy, n, draw) <= ceiling <= cap
    assert ceiling <= ceiling_s(policy, n + 1)
    assert ceiling_s(policy, 1) == min(delay, cap)


@pytest.mark.spec("DP-10", "DP-12", "DP-18")
def test_a_failure_that_is_not_retriable_goes_to_the_dead_letter_at_once() -> None:
    rig = Rig(ScriptedSink([BAD]))
    rig.offer(1, 2)
    assert [e.attributes["id"] for e in rig.letters.sent] == ["1"]
    assert rig.feed.acked == [1, 2]
    assert rig.clock.next_timer() is None


@pytest.mark.spec("BR-19")
def test_a_dead_letter_carries_the_facts_and_the_event_comes_out_as_it_was() -> None:
    sink = ScriptedSink(
        default=Outcome(False, retry=True, code=500, data=b"y" * 5000, reason="500\nboom"), address="http://s/"
    )
    rig = Rig(sink, retry=2)
    rig.offer(3)
    rig.clock.advance(60)
    (letter,) = rig.letters.sent
    facts = letter.attributes
    assert facts["knativeerrordest"] == "http://s/"
    assert facts["knativeerrorcode"] == "500"
    assert b64decode(facts["knativeerrordata"]) == b"y" * 1024
    assert (facts["tidegatetrigger"], facts["tidegateattempts"], facts["tidegatestage"]) == ("t", 3, "delivery")
    assert facts["tidegatereason"] == "500 boom"
    assert facts["tidegatefirst"] < facts["tidegatelast"]
    assert all(name.isalnum() and name.islower() and len(name) <= 20 for name in facts)
    assert without_facts(letter) == event(3)


def test_no_answer_leaves_the_error_code_out() -> None:
    rig = Rig(ScriptedSink(default=Outcome(False, retry=True, reason="connection refused")), retry=0)
    rig.offer(1)
    assert "knativeerrorcode" not in rig.letters.sent[0].attributes
    assert "knativeerrordata" not in rig.letters.sent[0].attributes


def test_a_dead_letter_that_fails_pauses_the_subscription_and_keeps_the_event() -> None:
    letters = ScriptedSink([BUSY, BUSY], address="letters:")
    rig = Rig(ScriptedSink([BAD]), letters)
    rig.offer(1, 2, 3)
    assert rig.subscription.blocked
    assert rig.feed.acked == []
    assert [e.attributes["id"] for e in rig.sink.sent] == ["1"]  # 2 and 3 wait
    assert "letters:" in (rig.subscription.failures.last or "")
    rig.clock.advance(0.5)
    assert rig.subscription.blocked
    rig.clock.advance(1.0)
    assert not rig.subscription.blocked
    assert rig.feed.acked[0] == 1
    assert sorted(rig.feed.acked) == [1, 2, 3]
    assert rig.subscription.dead_lettered == 1


@pytest.mark.spec("DP-17")
def test_retry_after_holds_back_the_whole_subscription_up_to_its_limit() -> None:
    asked = Outcome(False, retry=True, code=429, reason="429", retry_after_s=1000)
    sink = ScriptedSink([asked], hold=False)
    rig = Rig(sink, retry_after_max_s=5, max_in_flight=1)
    rig.offer(1, 2)
    assert len(sink.sent) == 1
    rig.clock.advance(4.9)
    assert len(sink.sent) == 1
    rig.clock.advance(0.2)
    assert sorted(rig.feed.acked) == [1, 2]


@pytest.mark.spec("DP-17")
def test_attempts_in_flight_are_bounded_and_shrink_while_the_subscriber_fails() -> None:
    sink = ScriptedSink(hold=True)
    rig = Rig(sink, max_in_flight=32)
    rig.offer(*range(1, 101))
    assert len(sink.held) == 32
    rig.clock.advance(1)
    sink.answer(BUSY)
    assert rig.subscription.in_flight == 31  # 16 may be under way now: none is started
    for _ in range(15):
        sink.answer()
    # each success opened the window by one, so that it is at its most again
    assert 16 < rig.subscription.in_flight <= 32
    for _ in range(8):
        rig.clock.advance(1)
        for _ in range(len(sink.held)):
            sink.answer(BUSY)
    assert rig.subscription.in_flight >= 1  # never closed


@pytest.mark.spec("DP-17")
def test_rate_limits_the_attempts_that_start_in_a_second() -> None:
    rig = Rig(ScriptedSink(), rate_per_s=20)
    rig.offer(*range(1, 101))
    for second in range(1, 4):
        rig.clock.advance(1)
        assert second * 20 <= len(rig.sink.sent) <= second * 20 + 2


def test_a_subscription_that_is_full_says_no_and_resumes_when_there_is_room() -> None:
    sink = ScriptedSink(hold=True)
    rig = Rig(sink, max_in_flight=10_000)
    rig.budget.limit = 50 * 256
    taken = 0
    while rig.subscription.offer(event(taken + 1)):
        taken += 1
    assert 16 <= taken < 60
    assert rig.feed.resumed == 0
    while sink.held:
        sink.answer()
    assert rig.feed.resumed == 1
    assert rig.budget.used == 0
    assert rig.subscription.offer(event(1000))


def test_long_attributes_count_for_the_memory_that_may_be_held() -> None:
    rig = Rig(ScriptedSink(hold=True))
    numbers = range(1, 100)
    long = [Event({"id": str(n), "subject": "s" * 1_000_000, "object": {"x": "y"}}, position=n) for n in numbers]
    assert sum(map(rig.subscription.offer, long)) == 16


def test_a_sink_that_raises_is_a_failed_delivery_at_the_encode_stage() -> None:
    class Broken(ScriptedSink):
        def send(self, event: Event, timeout_s: float, done: object) -> None:  # type: ignore[override]
            raise ValueError("no such field")

    rig = Rig(Broken())
    rig.offer(1)
    assert rig.letters.sent[0].attributes["tidegatestage"] == "encode"
    assert rig.feed.acked == [1]


def test_the_stage_is_a_field_of_the_outcome_and_not_read_from_its_reason() -> None:
    outcomes = [Outcome(False, reason="encode: it says"), Outcome(False, stage=Stage.ENCODE, reason="too large")]
    rig = Rig(ScriptedSink(outcomes))
    rig.offer(1)
    rig.offer(2)
    assert [e.attributes["tidegatestage"] for e in rig.letters.sent] == ["delivery", "encode"]
    assert rig.subscription.dead_lettered_by_stage == {
        "decode": 0,
        "filter": 0,
        "order": 0,
        "delay": 0,
        "encode": 1,
        "delivery": 1,
    }


@pytest.mark.spec("BR-23")
def test_a_reply_that_is_not_accepted_delivers_the_event_again() -> None:
    replies: list[str] = []
    errors: list[BaseException | None] = [RuntimeError("disk full"), None]

    def publish(events: list[Event], done: object) -> None:
        replies.extend(e.attributes["id"] for e in events)
        done(errors.pop(0))  # type: ignore[operator]

    clock, feed = FakeClock(), MemoryFeed()
    sink = ScriptedSink(default=Outcome(True, reply=event(99)))
    subscription = Subscription("t", sink, DeliveryConfig(), clock, dead_letter=ScriptedSink(), publish=publish)
    subscription.feed = feed
    subscription.offer(event(1))
    assert feed.acked == []
    clock.advance(1)
    assert feed.acked == [1]
    assert replies == ["99", "99"]
    assert len(sink.sent) == 2


def replied(to: Event, **attributes: str) -> Event | None:
    """What is published when a subscriber answers `to` with an event of these attributes."""
    published: list[Event] = []
    letters = ScriptedSink()
    answer = Event({"specversion": "1.0", "id": "r", "source": "/r", "type": "r", **attributes}, b"d")
    subscription = Subscription(
        "t",
        ScriptedSink([Outcome(True, reply=answer)]),
        DeliveryConfig(),
        FakeClock(),
        dead_letter=letters,
        publish=lambda events, done: (published.extend(events), done(None))[1],
    )
    subscription.feed = MemoryFeed()
    subscription.offer(to)
    assert len(published) + len(letters.sent) == 1
    return published[0] if published else None


@pytest.mark.spec("BR-25")
def test_a_reply_keeps_the_trace_unless_it_has_its_own() -> None:
    traced = event(1).with_attributes(traceparent="00-aa-bb-01", tracestate="v=1")
    kept = replied(traced)
    assert kept is not None
    assert (kept.attributes["traceparent"], kept.attributes["tracestate"]) == ("00-aa-bb-01", "v=1")
    own = replied(traced, traceparent="00-cc-dd-01")
    assert own is not None
    assert own.attributes["traceparent"] == "00-cc-dd-01"
    assert "tracestate" not in own.attributes


@pytest.mark.spec("BR-22")
def test_replies_count_down_and_a_loop_ends_in_the_dead_letter() -> None:
    first = replied(event(1))
    assert first is not None
    assert first.attributes["knativebrokerttl"] == 254
    assert (first.attributes["id"], first.data) == ("r", b"d")
    second = replied(event(1).with_attributes(knativebrokerttl="2"))
    assert second is not None
    assert second.attributes["knativebrokerttl"] == 1
    assert replied(second) is None
    high = replied(event(1).with_attributes(knativebrokerttl="100000"))
    assert high is not None
    assert high.attributes["knativebrokerttl"] == 254


def test_stop_starts_nothing_more_and_settles_nothing() -> None:
    rig = Rig(ScriptedSink([BUSY]))
    rig.offer(1)
    rig.subscription.stop()
    rig.clock.advance(100)
    assert not rig.subscription.offer(event(2))
    assert rig.feed.acked == []
    assert len(rig.sink.sent) == 1


def test_what_a_stop_cuts_off_is_not_given_up() -> None:
    sink = ScriptedSink(hold=True)
    rig = Rig(sink, retry=0)
    rig.offer(1, 2)
    rig.subscription.stop()
    sink.answer(BUSY)
    sink.answer(BAD)  # final, whenever it comes
    rig.clock.advance(100)
    assert [letter.attributes["id"] for letter in rig.letters.sent] == ["2"]
    assert rig.feed.acked == [2]


OUTCOMES = {"ok": DELIVERED, "busy": BUSY, "bad": BAD}


@given(st.lists(st.sampled_from(sorted(OUTCOMES)), max_size=60), st.integers(1, 30), st.integers(0, 3))
def test_every_event_is_settled_once_whatever_the_subscriber_answers(script: list[str], count: int, retry: int) -> None:
    rig = Rig(ScriptedSink([OUTCOMES[s] for s in script]), retry=retry, max_in_flight=4)
    rig.offer(*range(1, count + 1))
    rig.clock.advance(1000)
    assert sorted(rig.feed.acked) == list(range(1, count + 1))
    assert rig.subscription.delivered + rig.subscription.dead_lettered == count
    assert rig.subscription.dead_lettered == len(rig.letters.sent)
    assert rig.subscription.attempts == len(rig.sink.sent) == count + rig.subscription.retried
    assert (rig.subscription.in_flight, rig.subscription.held, rig.budget.used) == (0, 0, 0)
