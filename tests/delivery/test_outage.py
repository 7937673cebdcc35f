"""A subscriber that gives no answers: one attempt at a time decides for all, within each event's own policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime

import pytest
from gateway_testing import FakeClock, MemoryFeed
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.backoff import ceiling_s
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import PARTITION_BITS, Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.delivery import Subscription
from gateway_core.delivery.deliveries import OrderKeyOf, of_key, of_partition
from tests.budget import examples

SILENT = Outcome(False, retry=True, reason="no response within 30 s")
REFUSED = Outcome(False, retry=True, reason="connection refused")
BUSY = Outcome(False, retry=True, code=503, reason="503")
BAD = Outcome(False, code=400, reason="400")


def event(n: int, partition: int = 0, key: bytes | None = None) -> Event:
    position = partition << PARTITION_BITS | n
    return Event({"specversion": "1.0", "id": str(n), "source": "/t", "type": "t"}, b"x", key=key, position=position)


class Far:
    """A sink: `answer(event)` is the outcome of each attempt, which takes `takes_s` seconds."""

    address = "http://far.example/"

    def __init__(self, clock: FakeClock, answer: Callable[[Event], Outcome], takes_s: float = 0.0) -> None:
        self.clock, self.answer, self.takes_s = clock, answer, takes_s
        self.sent: list[tuple[float, str]] = []
        self.under_way = self.most = 0

    async def start(self, tasks: object) -> None: ...
    async def stop(self) -> None: ...

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        self.sent.append((self.clock.monotonic(), event.attributes["id"]))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.clock.call_later(self.takes_s, self._end, event, done)

    def _end(self, event: Event, done: Callable[[Outcome], None]) -> None:
        self.under_way -= 1
        done(self.answer(event))


class Letters:
    address = "letters:"

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.got: list[tuple[float, Event]] = []

    async def start(self, tasks: object) -> None: ...
    async def stop(self) -> None: ...

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        self.got.append((self.clock.monotonic(), event))
        self.clock.call_later(0.001, done, DELIVERED)

    def ids(self) -> list[str]:
        return [e.attributes["id"] for _, e in self.got]


class Rig:
    def __init__(
        self,
        answer: Callable[[Event], Outcome],
        takes_s: float = 0.0,
        order_key_of: OrderKeyOf | None = None,
        give_back: Callable[[int, Outcome], None] | None = None,
        **policy: object,
    ) -> None:
        self.clock = FakeClock()
        self.far = Far(self.clock, answer, takes_s)
        self.letters = Letters(self.clock)
        self.feed = MemoryFeed()
        self.subscription = Subscription(
            *("t", self.far, DeliveryConfig(**policy), self.clock),  # type: ignore[arg-type]
            dead_letter=None if give_back else self.letters,
            give_back=give_back,
            order_key_of=order_key_of,
            draw=lambda: 0.5,
        )
        self.subscription.feed = self.feed

    def offer(self, *events: Event) -> None:
        for e in events:
            assert self.subscription.offer(e)

    def settle(self, most_s: float = 100_000) -> float:
        """Runs until nothing is held; returns when that was."""
        began = self.clock.monotonic()
        while self.subscription.held and self.clock.monotonic() - began < most_s:
            wait = self.clock.next_timer()
            assert wait is not None, "events are held, and nobody will come for them"
            self.clock.advance(wait)
        return self.clock.monotonic() - began


@pytest.mark.slow
@pytest.mark.spec("SAFE-37")
def test_events_before_a_silent_subscriber_are_given_up_together() -> None:
    rig = Rig(lambda e: SILENT, 30.0, retry=10)
    rig.offer(*(event(n) for n in range(1, 2001)))
    took = rig.settle()
    assert took < 12 * 60, "not so long for each of them"
    assert sorted(rig.letters.ids(), key=int) == [str(n) for n in range(1, 2001)]
    assert {e.attributes["tidegateattempts"] for _, e in rig.letters.got} == {11}
    assert len(rig.far.sent) < 100
    times = [at for at, _ in rig.far.sent]
    assert len([at for at in times if at > 31]) == len({at for at in times if at > 31}), "one at a time"


@pytest.mark.spec("SAFE-37")
@pytest.mark.parametrize("retry", [1, 2, 5])
def test_events_behind_others_are_given_back_even_if_none_is_left_to_attempt(retry: int) -> None:
    returned: list[int] = []
    rig = Rig(lambda e: SILENT, 1.0, of_key, lambda position, outcome: returned.append(position), retry=retry)
    rig.offer(*(event(n, key=b"%d" % (n % 2)) for n in range(1, 11)))
    rig.settle()
    assert sorted(returned) == list(range(1, 11))


@pytest.mark.spec("SAFE-37")
def test_no_event_is_given_up_sooner_than_its_policy_says() -> None:
    rig = Rig(lambda e: REFUSED, retry=8)
    policy = rig.subscription.policy
    least = sum(ceiling_s(policy, n) / 2 for n in range(1, 9))
    rig.offer(*(event(n) for n in range(1, 51)))
    rig.clock.advance(7)
    rig.offer(*(event(n) for n in range(51, 101)))
    rig.settle()
    assert sorted(rig.letters.ids(), key=int) == [str(n) for n in range(1, 101)]
    for at, letter in rig.letters.got:
        offered = 0 if int(letter.attributes["id"]) <= 50 else 7
        assert least <= at - offered < least * 3
        assert letter.attributes["tidegateattempts"] == 9
        assert letter.attributes["tidegatereason"] == "connection refused"
    assert rig.letters.got[0][1].attributes["tidegatefirst"]


@pytest.mark.slow
@pytest.mark.spec("SAFE-37")
@pytest.mark.parametrize("by_s", [-7200.0, 7200.0])
def test_a_time_of_day_that_is_set_anew_changes_no_wait(by_s: float) -> None:
    def played(by_s: float) -> list[float]:
        rig = Rig(lambda e: REFUSED, retry=8)
        rig.offer(*(event(n) for n in range(1, 101)))
        rig.clock.advance(10.0)
        rig.clock.set_by(by_s)
        rig.settle()
        return [at for at, _ in rig.far.sent]

    assert played(by_s) == pytest.approx(played(0.0), abs=0.01)


@pytest.mark.slow
@pytest.mark.spec("SAFE-37")
def test_a_dead_subscriber_costs_a_few_attempts_whatever_waits() -> None:
    rig = Rig(lambda e: REFUSED, retry=1000)
    rig.offer(*(event(n) for n in range(1, 5001)))
    rig.clock.advance(60)
    before = len(rig.far.sent)
    rig.clock.advance(600)
    assert 10 <= len(rig.far.sent) - before <= 600, "no more than one in a second, whatever waits"
    assert rig.subscription.attempts == len(rig.far.sent)


@pytest.mark.spec("SAFE-37")
@pytest.mark.parametrize("order_key_of", [None, of_partition, of_key], ids=["unordered", "partition", "key"])
def test_a_subscriber_that_comes_back_gets_all_within_seconds(order_key_of: OrderKeyOf | None) -> None:
    back = [False]
    rig = Rig(lambda e: DELIVERED if back[0] else REFUSED, 0.01, order_key_of, retry=100)
    rig.offer(*(event(n, n % 4, b"%d" % (n % 4)) for n in range(1, 101)))
    rig.clock.advance(120)
    assert rig.subscription.failures.many
    assert rig.feed.acked == rig.letters.got == []
    back[0] = True
    rig.clock.advance(31)  # those that were tried by themselves keep their own waits, 30 s at the most
    assert len(rig.feed.acked) == 100
    if order_key_of is not None:
        for order_key in range(4):
            ids = [p & ((1 << PARTITION_BITS) - 1) for p in rig.feed.acked]
            assert [n for n in ids if n % 4 == order_key] == sorted(n for n in ids if n % 4 == order_key)
    assert not rig.subscription.failures.many


@pytest.mark.spec("SAFE-37")
@pytest.mark.parametrize("order_key_of", [None, of_partition, of_key], ids=["unordered", "partition", "key"])
def test_what_an_outage_counted_keeps_its_wait_when_the_subscriber_is_back(order_key_of: OrderKeyOf | None) -> None:
    back = [False]
    rig = Rig(lambda e: BUSY if back[0] else REFUSED, 0.01, order_key_of, retry=2, backoff="linear", backoff_delay_s=8)
    for n in range(1, 31):
        rig.offer(event(n, n % 25, b"%d" % (n % 25)))
        rig.clock.advance(0.4)  # not all wait for the same moment
    rig.clock.advance(2)
    back[0] = True
    rig.settle()
    assert len(rig.letters.got) == 30
    assert {e.attributes["tidegateattempts"] for _, e in rig.letters.got} == {3}
    took = [seconds(e, "tidegatelast") - seconds(e, "tidegatefirst") for _, e in rig.letters.got]
    alone = 0.75 * sum(ceiling_s(rig.subscription.policy, n) for n in (1, 2))  # `Rig` draws 0.5 for each wait
    assert min(took) >= alone - 0.01


def seconds(letter: Event, attribute: str) -> float:
    return datetime.fromisoformat(str(letter.attributes[attribute])).timestamp()


@pytest.mark.spec("SAFE-37")
@pytest.mark.parametrize("order_key_of", [None, of_key], ids=["unordered", "key"])
def test_one_event_that_gets_no_answer_takes_no_other_along(order_key_of: OrderKeyOf | None) -> None:
    rig = Rig(lambda e: SILENT if e.attributes["id"] == "3" else DELIVERED, 0.01, order_key_of, retry=6)
    rig.offer(*(event(n, key=b"%d" % (n % 5)) for n in range(1, 51)))
    rig.settle()
    assert rig.letters.ids() == ["3"]
    assert sum(1 for _, id in rig.far.sent if id == "3") == 7
    assert len(rig.feed.acked) == 50


@pytest.mark.spec("SAFE-37")
def test_an_event_that_gets_no_answer_holds_its_order_key_and_is_given_up_alone() -> None:
    rig = Rig(lambda e: SILENT if e.attributes["id"] == "1" else DELIVERED, 1.0, of_partition, retry=10)
    rig.offer(*(event(n) for n in range(1, 21)))
    rig.settle()
    assert rig.letters.ids() == ["1"]
    assert rig.feed.acked == list(range(1, 21))


@pytest.mark.spec("SAFE-37")
def test_an_ordered_sequence_before_a_silent_subscriber_is_given_up_in_order_and_soon() -> None:
    rig = Rig(lambda e: SILENT, 30.0, of_partition, retry=10)
    rig.offer(*(event(n) for n in range(1, 501)))
    assert rig.settle() < 20 * 60
    assert rig.letters.ids() == [str(n) for n in range(1, 501)]
    assert rig.feed.acked == list(range(1, 501))
    assert {e.attributes["tidegateattempts"] for _, e in rig.letters.got} == {11}


@pytest.mark.spec("SAFE-37")
def test_answers_are_never_shared() -> None:
    rig = Rig(lambda e: BUSY, retry=3)
    rig.offer(*(event(n) for n in range(1, 31)))
    rig.settle()
    assert set(Counter(id for _, id in rig.far.sent).values()) == {4}
    assert len(rig.letters.got) == 30


@pytest.mark.spec("SAFE-37")
def test_letters_of_events_without_an_attempt_come_a_few_at_once() -> None:
    def no_key(event: Event) -> bytes:
        raise ValueError("no key")

    rig = Rig(lambda e: DELIVERED, order_key_of=no_key, max_in_flight=4)
    most = 0
    rig.offer(*(event(n) for n in range(1, 201)))
    while rig.subscription.held:
        most = max(most, sum(1 for state, _ in rig.subscription.under_way() if state == "letter"))
        rig.clock.advance(rig.clock.next_timer() or 0)
    assert most == 4
    assert rig.letters.ids() == [str(n) for n in range(1, 201)]


@pytest.mark.spec("SAFE-37")
def test_letters_of_events_that_are_given_up_together_come_a_few_at_once() -> None:
    rig = Rig(lambda e: REFUSED, retry=0, max_in_flight=4)
    most = 0
    rig.offer(*(event(n) for n in range(1, 201)))
    while rig.subscription.held:
        most = max(most, sum(1 for state, _ in rig.subscription.under_way() if state == "letter"))
        rig.clock.advance(rig.clock.next_timer() or 0)
    assert most <= 8
    assert len(rig.letters.got) == 200


STEPS = st.lists(
    st.tuples(st.sampled_from(["ok", "silent", "silent", "silent", "busy", "bad"]), st.integers(1, 12)), max_size=12
)


@pytest.mark.slow
@pytest.mark.spec("SAFE-37")
@examples(80)
@given(
    phases=STEPS,
    order_keys=st.sampled_from([None, of_partition]),
    takes_s=st.sampled_from([0.0, 0.5, 3.0]),
    retry=st.integers(0, 4),
    most=st.integers(1, 20),
    arrivals=st.lists(st.tuples(st.integers(0, 8), st.floats(0, 10)), min_size=1, max_size=6),
)
def test_every_event_is_settled_once_in_order_and_within_its_tries(
    phases: list[tuple[str, int]],
    order_keys: OrderKeyOf | None,
    takes_s: float,
    retry: int,
    most: int,
    arrivals: list[tuple[int, float]],
) -> None:
    script = iter([word for word, times in phases for _ in range(times)])
    answers = {"ok": DELIVERED, "silent": SILENT, "busy": BUSY, "bad": BAD}
    rig = Rig(lambda e: answers[next(script, "ok")], takes_s, order_keys, retry=retry, max_in_flight=most)
    n = 0
    for count, pause in arrivals:
        for _ in range(count):
            n += 1
            rig.offer(event(n, n % 3))
        rig.clock.advance(pause)
    rig.settle()
    assert rig.subscription.held == 0
    low = (1 << PARTITION_BITS) - 1
    assert sorted(p & low for p in rig.feed.acked) == list(range(1, n + 1))
    assert rig.far.most <= most
    own = Counter(id for _, id in rig.far.sent)
    for _, letter in rig.letters.got:
        attempts = letter.attributes["tidegateattempts"]
        assert own[letter.attributes["id"]] <= attempts <= retry + 1
    assert all(times <= retry + 1 for times in own.values())
    if order_keys is not None:
        for order_key in range(3):
            acked = [p & low for p in rig.feed.acked if p >> PARTITION_BITS == order_key]
            assert acked == sorted(acked)
    rig.subscription.stop()
    assert rig.clock.next_timer() is None, "no timer goes on after the stop"
