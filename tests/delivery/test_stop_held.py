"""A subscription that was stopped holds nothing: a reload stops one while the gateway keeps running, and the memory of
what waited belongs to all."""

from __future__ import annotations

import pytest

from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.outcome import Stage
from gateway_core.delivery.deliveries import OrderKeyOf, of_key, of_partition

from .order_rig import BAD, BUSY, Rig, event

pytestmark = pytest.mark.spec("SAFE-40")

SHORT = Outcome(False, retry=True, local=True, reason="no descriptors")


@pytest.mark.parametrize("order_key_of", [None, of_partition, of_key])
def test_what_was_not_begun_is_let_go(order_key_of: OrderKeyOf | None) -> None:
    rig = Rig(order_key_of, max_in_flight=2)
    rig.offer(*(event(n, partition=n % 3, key=str(n % 3)) for n in range(9)))
    rig.subscription.stop()
    assert rig.subscription.held == len(rig.under_way) == 2
    for n in rig.under_way:
        rig.sink.answer(n)
    assert rig.nothing_left()
    assert rig.acked == [0, 1]
    assert list(rig.subscription.under_way()) == []


def test_what_waits_for_its_retry_is_let_go_with_its_timer() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1), event(2))
    rig.sink.answer(1, BUSY)
    rig.subscription.stop()
    assert rig.nothing_left()
    rig.clock.advance(3600)
    assert (rig.sink.sent, rig.acked) == ([1], [])


@pytest.mark.parametrize("outcome", [BUSY, SHORT], ids=["refused", "short"])
@pytest.mark.parametrize("order_key_of", [None, of_partition])
def test_what_fails_later_is_let_go_then(order_key_of: OrderKeyOf | None, outcome: Outcome) -> None:
    rig = Rig(order_key_of)
    rig.offer(event(1))
    rig.subscription.stop()
    assert rig.subscription.held == 1
    rig.sink.answer(1, outcome)
    assert rig.nothing_left()
    assert (rig.acked, rig.letters.sent) == ([], [])


def test_a_letter_that_waits_for_its_next_try_is_let_go() -> None:
    rig = Rig(None)
    rig.offer(event(1))
    rig.sink.answer(1, BAD)
    rig.letters.answer(1, BUSY)
    rig.subscription.stop()
    assert (rig.subscription.held, rig.budget.used) == (0, 0)
    rig.clock.advance(3600)
    assert (rig.letters.sent, rig.acked) == ([1], [])


@pytest.mark.parametrize("tries", [1, 2])
def test_a_letter_whose_try_fails_later_is_let_go_then(tries: int) -> None:
    rig = Rig(of_partition)
    rig.offer(event(1), event(2))
    rig.sink.answer(1, BAD)
    for _ in range(1, tries):
        rig.letters.answer(1, BUSY)
        rig.clock.advance(60)
    rig.subscription.stop()
    assert rig.subscription.held == 1
    rig.letters.answer(1, BUSY)
    assert (rig.subscription.held, rig.budget.used) == (0, 0)
    assert (len(rig.letters.sent), rig.acked) == (tries, [])


def test_a_letter_that_is_written_later_is_acknowledged() -> None:
    rig = Rig(None)
    rig.offer(event(1))
    rig.sink.answer(1, BAD)
    rig.subscription.stop()
    rig.letters.answer(1)
    assert rig.nothing_left()
    assert rig.acked == [1]


def test_what_waits_for_room_among_the_letters_is_let_go() -> None:
    rig = Rig(None, max_in_flight=1)
    for n in (1, 2):
        rig.subscription.reject(event(n), Outcome(False, stage=Stage.DECODE, reason="no event"))
    rig.subscription.stop()
    assert rig.subscription.held == 1
    rig.letters.answer(1)
    assert rig.nothing_left()
    assert rig.acked == [1]
