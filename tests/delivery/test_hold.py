"""`hold_while_down`: a subscriber that gives no answer uses up nothing; one that answers counts as ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_testing import ScriptedSink
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.config_model import BridgeConfig
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.delivery.deliveries import PATIENCE, of_key, of_partition
from tests.budget import examples
from tests.delivery.gateway_rig import Parts, running, until
from tests.delivery.test_outage import BAD, BUSY, REFUSED, SILENT, Rig, event

DAY_S = 86_400.0


def run(rig: Rig, seconds: float) -> None:
    """Lets time go by, timer by timer."""
    end = rig.clock.monotonic() + seconds
    while (wait := rig.clock.next_timer()) is not None and rig.clock.monotonic() + wait <= end:
        rig.clock.advance(wait)
    rig.clock.advance(max(0.0, end - rig.clock.monotonic()))


@pytest.mark.spec("HOLD-01")
@pytest.mark.parametrize("policy", [{}, {"retry": 0}, {"retry": 3}, {"retry_for": 60}, {"retry": 2, "retry_for": 1}])
@pytest.mark.parametrize("order", [None, of_key, of_partition])
@pytest.mark.parametrize("count", [1, 2, 200])
@pytest.mark.slow
def test_nothing_is_given_up_while_nobody_answers(policy: dict[str, float], order: object, count: int) -> None:
    down = True
    rig = Rig(lambda e: REFUSED if down else DELIVERED, order_key_of=order, hold_while_down=True, **policy)  # type: ignore[arg-type]
    rig.offer(*(event(n, key=b"%d" % (n % 3)) for n in range(1, count + 1)))
    # beyond the day after which events are given up by default; many events take many times the CPU time
    run(rig, 1.2 * DAY_S if count == 1 else DAY_S / 10)
    assert rig.letters.got == []
    assert (rig.subscription.held, rig.subscription.holding) == (count, True)
    down = False
    rig.settle(400)
    assert rig.letters.got == []
    assert (rig.subscription.delivered, rig.subscription.holding) == (count, False)


@pytest.mark.spec("HOLD-02")
def test_an_event_that_alone_gets_no_answer_is_given_up() -> None:
    rig = Rig(lambda e: SILENT if e.attributes["id"] == "1" else DELIVERED, takes_s=1, retry=3, hold_while_down=True)
    rig.offer(event(1))
    for n in range(2, 200):
        rig.offer(event(n))
        run(rig, 1)
    rig.settle()
    assert rig.letters.ids() == ["1"]
    assert rig.letters.got[0][1].attributes["tidegateattempts"] == 5, "the first says nothing yet, then four count"


HUNG = Outcome(False, retry=True, reason="no response within 30 s", reached=True)


@pytest.mark.spec("HOLD-06")
@pytest.mark.parametrize("order", [of_key, of_partition])
@pytest.mark.parametrize("poison", [{"1"}, {"1", "2"}, {"2", "3", "4"}])
def test_events_that_make_the_subscriber_hang_block_no_sequence_for_ever(poison: set[str], order: object) -> None:
    rig = Rig(
        lambda e: HUNG if e.attributes["id"] in poison else DELIVERED,
        takes_s=1,
        order_key_of=order,  # type: ignore[arg-type]
        retry=3,
        hold_while_down=True,
    )
    rig.offer(*(event(n, key=b"k") for n in range(1, 7)))
    rig.settle()
    assert set(rig.letters.ids()) == poison
    counts = [letter.attributes["tidegateattempts"] for _, letter in rig.letters.got]
    assert counts == [PATIENCE * 2**n + 4 for n in range(len(poison))], "free ones, then a first one and three retries"
    assert rig.subscription.delivered == 6 - len(poison)


@pytest.mark.spec("HOLD-06")
@pytest.mark.parametrize("policy", [{"retry": 3}, {"retry": 0}, {"retry_for": 60}])
def test_what_never_reached_the_subscriber_counts_nothing(policy: dict[str, float]) -> None:
    """A connection that breaks after it was accepted, now and then, among refused ones."""
    tries = iter(range(1_000_000))
    rig = Rig(
        lambda e: HUNG if (n := next(tries)) % 100 == 0 and n < 100 * PATIENCE else REFUSED,
        order_key_of=of_partition,
        hold_while_down=True,
        **policy,
    )
    rig.offer(event(1), event(2))
    run(rig, DAY_S / 4)
    assert (rig.letters.got, rig.subscription.held) == ([], 2)
    rig.far.answer = lambda e: DELIVERED
    rig.settle(400)
    assert rig.subscription.delivered == 2


@pytest.mark.spec("HOLD-06")
def test_refused_connections_are_no_time_of_an_event_that_counts() -> None:
    tries = iter(range(1_000_000))
    rig = Rig(
        lambda e: REFUSED if PATIENCE < next(tries) < 2_000 else HUNG,
        order_key_of=of_partition,
        retry_for=100,
        hold_while_down=True,
    )
    rig.offer(event(1))
    while next(tries) < 1_990:
        run(rig, 60)
    assert rig.letters.got == []
    back = rig.clock.monotonic()
    rig.settle()
    assert rig.clock.monotonic() - back > 60


@pytest.mark.spec("HOLD-06")
def test_a_subscriber_that_hangs_for_all_takes_few_events_and_the_rest_are_held() -> None:
    rig = Rig(lambda e: HUNG, takes_s=30, order_key_of=of_partition, retry=3, hold_while_down=True)
    rig.offer(*(event(n) for n in range(1, 101)))
    run(rig, 2 * DAY_S)
    given_up = len(rig.letters.got)
    assert 6 <= given_up <= 9, "each takes twice as many attempts as the one before"
    rig.far.answer, rig.far.takes_s = (lambda e: DELIVERED), 0
    rig.settle(400)
    assert rig.subscription.delivered == 100 - given_up


@pytest.mark.spec("HOLD-06")
def test_several_events_without_an_answer_are_no_fault_of_one() -> None:
    rig = Rig(lambda e: HUNG, order_key_of=of_key, retry=0, hold_while_down=True)
    rig.offer(*(event(n, key=b"%d" % (n % 2)) for n in range(1, 9)))
    run(rig, DAY_S / 10)
    assert (rig.letters.got, rig.subscription.held) == ([], 8)


@pytest.mark.spec("HOLD-03")
@pytest.mark.slow
def test_answers_use_up_retries_and_silence_is_no_time_of_them() -> None:
    answer: Outcome = BUSY
    rig = Rig(lambda e: answer, retry_for=100, hold_while_down=True)
    rig.offer(event(1))
    run(rig, 50)
    answer = REFUSED
    run(rig, 2 * DAY_S)
    assert rig.letters.got == []
    back = rig.clock.monotonic()
    answer = BUSY
    rig.settle()
    assert rig.letters.ids() == ["1"]
    assert 20 < rig.clock.monotonic() - back < 150, "about the 50 s that were left, and a wait"


@pytest.mark.spec("HOLD-03")
@pytest.mark.slow
def test_a_rejection_after_silence_is_final() -> None:
    answer: Outcome = REFUSED
    rig = Rig(lambda e: answer, hold_while_down=True)
    rig.offer(*(event(n) for n in range(1, 20)))
    run(rig, DAY_S)
    answer = BAD
    rig.settle(400)
    assert sorted(map(int, rig.letters.ids())) == list(range(1, 20))


@pytest.mark.spec("HOLD-03")
@given(st.lists(st.sampled_from(["busy", "refused"]), min_size=1, max_size=30), st.integers(0, 6))
@examples(200)
def test_an_event_gets_as_many_answers_as_its_retries_say(script: list[str], retry: int) -> None:
    """One event alone: only answers count."""
    answers = iter(script)
    got: list[str] = []

    def answer(_: object) -> Outcome:
        got.append(next(answers, "busy"))
        return BUSY if got[-1] == "busy" else REFUSED

    rig = Rig(answer, retry=retry, hold_while_down=True)
    rig.offer(event(1))
    rig.settle()
    assert rig.letters.ids() == ["1"]
    # an attempt without an answer counts if the subscriber answered between it and the one before it: with one event
    # alone these are its own answers
    counted, last = 0, None
    answered = 0
    for one in got:
        if one == "busy":
            answered += 1
            counted += 1
        else:
            counted += last is not None and last != answered
            last = answered
    assert counted == retry + 1


@pytest.mark.anyio
@pytest.mark.spec("HOLD-01")
async def test_a_condition_says_so_and_ends(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink(default=REFUSED))
    config = {
        "brokers": {"default": {"ingress": ["tap"], "dead_letter": "letters"}},
        "triggers": {"t": {"subscriber": "far", "delivery": {"retry": 0, "hold_while_down": True}}},
    }
    async with running(parts, config, tmp_path) as gateway:
        parts.tap.put(*(event(n) for n in range(1, 9)))
        await until(lambda: gateway.status().triggers[0].condition == "HeldWhileDown")
        status = gateway.status().triggers[0]
        assert (status.ready, status.dead_lettered) == (False, 0)
        assert "connection refused" in status.reason
        parts.far.default = DELIVERED
        await until(lambda: gateway.status().triggers[0].delivered == 8)
        assert gateway.status().triggers[0].condition == "Delivering"
        assert parts.letters.sent == []


@pytest.mark.anyio
@pytest.mark.spec("HOLD-01")
async def test_a_bridge_that_fetches_holds_too(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink(default=REFUSED))
    bridge = {
        "source": "pull",
        "sink": "far",
        "dead_letter": "letters",
        "delivery": {"retry": 0, "hold_while_down": True},
    }
    async with running(parts, {"bridges": {"b": bridge}}, tmp_path) as gateway:
        answers = [parts.pull.put(event(n)) for n in range(1, 9)]
        await until(lambda: gateway.status().bridges[0].condition == "HeldWhileDown")
        parts.far.default = DELIVERED
        await until(lambda: all(answer == [None] for answer in answers))
        assert parts.letters.sent == []


@pytest.mark.anyio
@pytest.mark.spec("HOLD-04")
async def test_senders_that_wait_are_told_at_once(tmp_path: Path) -> None:
    parts = Parts(ScriptedSink(default=REFUSED))
    bridge = {"source": "tap", "sink": "far", "delivery": {"retry": 0, "hold_while_down": True}}
    assert [place for place, _, _ in BridgeConfig.model_validate(bridge).warnings()] == [
        ("delivery", "hold_while_down")
    ]
    async with running(parts, {"bridges": {"b": bridge}}, tmp_path):
        (error,) = parts.tap.put(event(1))
        assert "connection refused" in str(error)
