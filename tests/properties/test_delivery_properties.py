"""Back-off, limits, dead-letter facts and replies, for any numbers and events."""

from __future__ import annotations

import sys
from base64 import b64decode

import pytest
from gateway_testing import FakeClock, ScriptedSink
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_core.contract import backoff
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.dead_letter_facts import FACTS, with_facts, without_facts
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from gateway_core.delivery.deliveries import Attempts, Delivery, DeliveryQueue, Rate, Schedule, Window
from gateway_core.delivery.reply import TTL, as_published
from tests.budget import examples

QUICK = examples(60)
SECONDS = st.floats(0, 3600)
TEXT = st.text(max_size=12)
EVENTS = st.builds(
    Event,
    st.dictionaries(
        st.sampled_from(["id", "subject", "ext", TTL, "traceparent", "tracestate"]), TEXT | st.integers(-9, 300)
    ),
    st.none() | st.binary(max_size=9),
    st.booleans(),
    st.none() | st.binary(max_size=5),
    st.integers(0, 2**62),
    st.integers(0, 2**48),
)


@pytest.mark.spec("DP-17")
@example("exponential", sys.float_info.min, 1.0, 1002, 0.0)
@QUICK
@given(
    st.sampled_from(["exponential", "linear"]),
    st.floats(0, 5),
    SECONDS,
    st.integers(1, 8) | st.integers(1, 5000),
    st.floats(0, 1, exclude_max=True),
)
def test_a_wait_is_in_the_upper_half_of_a_ceiling_that_grows_to_its_cap(
    kind: str, delay_s: float, max_s: float, retry: int, draw: float
) -> None:
    policy = DeliveryConfig.model_validate({"backoff": kind, "backoff_delay_s": delay_s, "backoff_max_s": max_s})
    ceiling = backoff.ceiling_s(policy, retry)
    assert ceiling <= backoff.ceiling_s(policy, retry + 1) <= max_s
    assert ceiling / 2 <= backoff.wait_s(policy, retry, draw) <= ceiling
    factor = float(retry) if kind == "linear" else 2.0 ** min(retry - 1, 1023)
    if delay_s == 0 or max_s / delay_s > factor * 1.001:
        assert ceiling == pytest.approx(float(delay_s * factor))


@pytest.mark.spec("DP-17")
@QUICK
@given(
    st.integers(1, 10_000), st.lists(st.tuples(st.sampled_from("sff"), st.sampled_from([0.0, 0.05, 0.2])), max_size=60)
)
def test_a_window_stays_between_a_sixteenth_and_what_is_allowed(most: int, steps: list[tuple[str, float]]) -> None:
    window, now = Window(most), 0.0
    for step, passes in steps:
        before = window.size
        now += passes
        if step == "s":
            window.succeeded()
            assert window.size == min(most, before + 1)
        else:
            window.failed(now)
            assert window.size in (before, max(1, most // 16, before // 2))
        assert max(1, most // 16) <= window.size <= most


@QUICK
@given(st.floats(0.1, 100), st.lists(st.floats(0, 2), max_size=20))
def test_a_rate_is_never_exceeded_and_never_idle(per_s: float, idle: list[float]) -> None:
    clock = FakeClock()
    rate = Rate(per_s, clock)
    for passes in idle:
        burst = 0
        while (wait := rate.take()) == 0:
            burst += 1
            assert burst <= max(1.0, per_s / 10) + 1e-6, "time without attempts is not saved up"
        assert wait <= 1.001 / per_s
        clock.advance(wait)
        assert rate.take() == 0, "there is a token after the wait that was named"
        clock.advance(passes)


class Scheduled:
    """A schedule with deliveries that are always due."""

    def __init__(self, policy: DeliveryConfig, clock: FakeClock) -> None:
        sink = ScriptedSink()
        attempts = Attempts("t", sink, sink.send, 1.0, clock, (), lambda delivery, outcome: None)
        self.clock = clock
        self.delivery = Delivery(attempts, Event({"id": "1"}))
        self.queue = DeliveryQueue(None, float("inf"))
        self.schedule = Schedule(policy, clock, self.queue, lambda: 0.0, lambda: None, lambda delivery, wait: None)

    def failed(self, retry_after_s: float | None = None) -> float:
        outcome = Outcome(False, retry=True, code=503, retry_after_s=retry_after_s)
        return self.schedule.failed(self.delivery, outcome, answered=True)

    def may_start(self, in_flight: int) -> bool:
        self.queue.due.append(self.delivery)
        return self.schedule.next(in_flight) is not None


@pytest.mark.spec("DP-17")
@QUICK
@given(
    st.floats(0, 100), st.lists(st.tuples(st.none() | st.floats(0, 1000), st.floats(0, 50)), min_size=1, max_size=20)
)
def test_no_attempt_starts_before_the_subscriber_wants_one(
    most_s: float, steps: list[tuple[float | None, float]]
) -> None:
    clock = FakeClock()
    it = Scheduled(DeliveryConfig(retry_after_max_s=most_s), clock)
    free = 0.0
    for retry_after, passes in steps:
        asked = it.failed(retry_after)
        assert asked == (0.0 if retry_after is None else min(retry_after, most_s))
        free = max(free, clock.monotonic() + asked)
        clock.advance(passes)
        assert it.may_start(0) == (free <= clock.monotonic())
        if free > clock.monotonic():
            wakes_in = clock.next_timer()
            assert wakes_in is not None
            assert wakes_in <= free - clock.monotonic() + 1e-9


@pytest.mark.spec("DP-17")
@QUICK
@given(st.integers(1, 64), st.lists(st.booleans(), max_size=30), st.integers(0, 80))
def test_no_more_attempts_than_the_window_are_in_flight(most: int, answers: list[bool], in_flight: int) -> None:
    clock = FakeClock()
    it, window = Scheduled(DeliveryConfig(max_in_flight=most), clock), Window(most)
    for good in answers:
        clock.advance(1)
        if good:
            it.schedule.succeeded()
            window.succeeded()
        else:
            it.failed()
            window.failed(clock.monotonic())
    assert it.may_start(in_flight) == (in_flight < window.size)


@pytest.mark.spec("BR-19")
@QUICK
@given(EVENTS, st.none() | st.integers(100, 999), st.binary(max_size=3000), TEXT, st.integers(0, 2**62))
def test_a_dead_letters_facts_are_readable_and_come_off_again(
    event: Event, code: int | None, data: bytes, reason: str, last_ns: int
) -> None:
    outcome = Outcome(False, code=code, data=data, reason=reason)
    facts = {"trigger": "t", "dest": "http://d/", "attempts": 3, "first_ns": 0, "last_ns": last_ns}
    letter = with_facts(with_facts(event, Outcome(False, code=1, data=b"old"), **facts), outcome, **facts)  # type: ignore[arg-type]
    assert letter.attributes.get("knativeerrorcode") == (None if code is None else str(code))
    assert b64decode(letter.attributes.get("knativeerrordata", "")) == data[:1024]
    assert letter.attributes["tidegatereason"].isprintable() or not reason.isprintable()
    assert len(letter.attributes["tidegatereason"].splitlines()) == 1
    assert letter.attributes["tidegatelast"].endswith("Z")
    assert set(letter.attributes) <= set(event.attributes) | set(FACTS)
    was = without_facts(letter)
    assert was == event
    assert (was.json_data, was.received_ns, was.position) == (event.json_data, event.received_ns, event.position)


@pytest.mark.spec("BR-22", "BR-25")
@QUICK
@given(EVENTS, EVENTS)
def test_every_chain_of_replies_ends(event: Event, reply: Event) -> None:
    budget = event.attributes.get(TTL)
    published = 0
    while published < 257:
        made = as_published(reply, event, 1)
        if made is None:
            break
        expected = reply if "traceparent" in reply.attributes else event
        assert made.attributes.get("traceparent") == expected.attributes.get("traceparent")
        assert (made.data, made.key) == (reply.data, reply.key)
        event = made
        published += 1
    assert published < 255, "254 replies at most"
    if type(budget) is int and 0 <= budget <= 255:
        assert published == max(0, budget - 1)
