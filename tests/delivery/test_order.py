"""`order: partition` and `order: key`: an event waits until the one before it with its key is settled, others go on.
And the withdrawal of partitions, whatever state their events are in."""

from __future__ import annotations

import pytest
from gateway_testing import ScriptedSink

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.outcome import Stage
from gateway_core.delivery.deliveries import OrderKeyOf, of_key, of_partition
from tests.delivery.order_rig import BAD, BUSY, Rig, event

# -- order ------------------------------------------------------------------------------------------------------------


def test_one_event_of_each_partition_is_under_way() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1, 1), event(2, 1), event(3, 2), event(4, 0), event(5, 2))
    assert rig.under_way == [1, 3, 4]
    rig.sink.answer(3)
    assert rig.under_way == [1, 4, 5]
    rig.sink.answer(1)
    assert rig.under_way == [2, 4, 5]
    for n in (2, 4, 5):
        rig.sink.answer(n)
    assert rig.acked == [3, 1, 2, 4, 5]
    assert rig.nothing_left()


def test_one_event_of_each_key_is_under_way_and_those_without_do_not_wait() -> None:
    rig = Rig(of_key)
    rig.offer(event(1, key="a"), event(2), event(3, key="a"), event(4, key="b"), event(5), event(6, key="b"))
    assert rig.under_way == [1, 2, 4, 5]
    rig.sink.answer(1)
    assert rig.under_way == [2, 3, 4, 5]


def test_the_attribute_partitionkey_is_the_key_of_an_event_without_one() -> None:
    rig = Rig(of_key)
    rig.offer(event(1, key="a"), event(2, partitionkey="a"), event(3, key="b", partitionkey="a"), event(4, key=""))
    assert rig.under_way == [1, 3, 4]
    assert of_key(event(1, partitionkey="a")) == of_key(event(2, key="a")) == b"a"
    assert of_key(Event({"partitionkey": 7})) == b"7"
    assert of_key(Event({}, key=b"")) == b""


def test_a_key_may_come_from_several_partitions() -> None:
    rig = Rig(of_key)
    rig.offer(event(1, 1, "a"), event(2, 2, "a"), event(3, 1, "b"))
    assert rig.under_way == [1, 3]


def test_a_retry_holds_its_order_key_and_no_other() -> None:
    rig = Rig(of_partition, backoff_delay_s=1)
    rig.offer(event(1, 1), event(2, 1), event(3, 2))
    rig.sink.answer(1, BUSY)
    assert rig.under_way == [3]
    rig.sink.answer(3)
    rig.offer(event(4, 2))
    assert rig.under_way == [4]
    rig.clock.advance(1)
    assert rig.under_way == [1, 4]
    rig.sink.answer(1)
    assert rig.under_way == [2, 4]


def test_a_letter_on_its_way_holds_its_order_key() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1, 1), event(2, 1), event(3, 2))
    rig.sink.answer(1, BAD)
    assert (rig.under_way, list(rig.letters.under_way)) == ([3], [1])
    rig.letters.answer(1)
    assert rig.under_way == [2, 3]
    assert rig.acked == [1]


def test_a_dead_letter_that_is_down_stops_all_and_then_all_goes_on_in_order() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1, 1), event(2, 1), event(3, 2), event(4, 2))
    rig.sink.answer(1, BAD)
    rig.letters.answer(1, BUSY)
    rig.sink.answer(3)
    assert rig.subscription.blocked
    assert rig.under_way == []
    rig.clock.advance(0.5)
    rig.letters.answer(1)
    assert rig.under_way == [2, 4]
    assert rig.acked == [3, 1]


def test_a_reply_that_is_published_holds_its_order_key() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1, 1), event(2, 1))
    rig.sink.answer(1, Outcome(True, reply=event(9)))
    assert rig.under_way == []
    rig.published[0](None)
    assert rig.under_way == [2]


def test_without_a_dead_letter_an_ordered_sequence_waits_for_its_sink_for_ever() -> None:
    rig = Rig(of_partition, endless=True, retry=1, backoff_max_s=1)
    rig.offer(event(1, 1), event(2, 1), event(3, 2))
    for _ in range(50):
        rig.sink.answer(1, BAD)
        assert 2 not in rig.sink.sent
        rig.clock.advance(1)
    rig.sink.answer(1)
    assert rig.under_way == [2, 3]
    assert rig.acked == [1]


def test_the_bound_of_attempts_holds_for_ordered_events_too() -> None:
    rig = Rig(of_partition, max_in_flight=2)
    rig.offer(*(event(n, n) for n in range(1, 6)), event(6, 1))
    assert rig.under_way == [1, 2]
    rig.sink.answer(1)
    assert rig.under_way == [2, 3], "the order_keys take turns"


def test_a_long_sequence_whose_sink_answers_at_once_needs_no_stack() -> None:
    rig = Rig(of_partition, sink=ScriptedSink(), max_in_flight=1)
    rig.offer(*(event(n) for n in range(1, 5001)))
    assert rig.acked == list(range(1, 5001))


# -- withdrawal -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order_key_of", [None, of_partition, of_key], ids=["unordered", "partition", "key"])
def test_what_is_in_line_is_withdrawn_and_what_is_under_way_is_not(order_key_of: OrderKeyOf | None) -> None:
    rig = Rig(order_key_of, max_in_flight=2)
    rig.offer(*(event(n, 1, "a") for n in (1, 2, 3)), event(4, 2, "b"), event(5, 2, "b"))
    rig.offer(event(6, 1, "b"))
    left = {1, 2, 3, 6} - set(rig.under_way)
    assert rig.withdraw(1) == sorted(left)
    for n in list(rig.under_way):
        rig.sink.answer(n)
    while rig.under_way:
        rig.sink.answer(rig.under_way[0])
    assert sorted(rig.acked) == sorted({1, 2, 3, 4, 5, 6} - left)
    assert rig.nothing_left()
    assert rig.withdraw(1) == []


def test_what_waits_for_its_retry_is_withdrawn_and_frees_its_order_key() -> None:
    rig = Rig(of_key)
    rig.offer(event(1, 1, "a"), event(2, 2, "a"))
    rig.sink.answer(1, BUSY)
    assert rig.withdraw(1) == [1]
    assert rig.under_way == [2]
    rig.clock.advance(100)
    assert rig.sink.sent == [1, 2], "its timer is cancelled"
    rig.sink.answer(2)
    assert rig.nothing_left()


def test_what_is_due_again_is_withdrawn() -> None:
    rig = Rig(of_partition, max_in_flight=1)
    rig.offer(event(1, 1))
    rig.sink.answer(1, BUSY)
    rig.offer(event(2, 2))
    rig.clock.advance(100)
    assert rig.withdraw(1) == [1]
    rig.sink.answer(2)
    assert rig.sink.sent == [1, 2]
    assert rig.nothing_left()


def test_a_letter_that_waits_for_its_next_try_is_withdrawn_and_pauses_nobody() -> None:
    rig = Rig(of_key)
    rig.offer(event(1, 1, "a"), event(2, 2, "a"))
    rig.sink.answer(1, BAD)
    rig.letters.answer(1, BUSY)
    assert rig.subscription.blocked
    assert rig.withdraw(1) == [1]
    assert not rig.subscription.blocked
    assert rig.under_way == [2]
    rig.clock.advance(100)
    assert rig.letters.sent == [1]
    rig.sink.answer(2)
    assert rig.nothing_left()


def test_a_letter_that_is_being_written_is_not_withdrawn() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1, 1), event(2, 1))
    rig.sink.answer(1, BAD)
    assert rig.withdraw(1) == [2]
    rig.letters.answer(1)
    assert rig.acked == [1]
    assert rig.nothing_left()


def test_a_reply_that_is_being_published_is_not_withdrawn() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1, 1))
    rig.sink.answer(1, Outcome(True, reply=event(9)))
    assert rig.withdraw(1) == []
    rig.published[0](None)
    assert rig.acked == [1]


def test_withdrawal_makes_room() -> None:
    rig = Rig(of_partition)
    rig.budget.limit = 1
    for n in range(1, 17):
        rig.offer(event(n, 1))
    assert not rig.subscription.offer(event(17, 1))
    assert rig.withdraw(1) == list(range(2, 17))
    assert rig.feed.resumed == 1
    rig.offer(event(18, 2))
    assert rig.under_way == [1, 18]


def test_an_event_that_comes_back_while_it_is_still_under_way_waits_for_itself() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1, 1), event(2, 1))
    assert rig.withdraw(1) == [2]
    rig.offer(event(1, 1), event(2, 1))
    assert rig.sink.sent == [1]
    for n in (1, 1, 2):
        rig.sink.answer(n)
    assert rig.acked == [1, 1, 2]
    assert rig.nothing_left()


# -- what is no event -------------------------------------------------------------------------------------------------


def test_what_is_no_event_goes_to_the_dead_letter_as_of_the_stage_decode() -> None:
    rig = Rig(of_partition)
    rig.offer(event(1, 1))
    rig.subscription.reject(event(2, 1), Outcome(False, stage=Stage.DECODE, reason="no specversion"))
    assert rig.sink.sent == [1], "it is not sent"
    facts = rig.letters.events[0].attributes
    assert (facts["tidegatestage"], facts["tidegatereason"]) == ("decode", "no specversion")
    assert facts["tidegateattempts"] == 0
    assert rig.subscription.failures.last == "no specversion"
    rig.letters.answer(2)
    rig.sink.answer(1)
    assert rig.acked == [2, 1]
    assert rig.nothing_left()


def test_what_is_no_event_is_withdrawn_like_other_letters_and_not_taken_after_a_stop() -> None:
    rig = Rig(None)
    rig.subscription.reject(event(2, 1), Outcome(False, stage=Stage.DECODE, reason="no specversion"))
    assert rig.withdraw(1) == []
    rig.letters.answer(2, BUSY)
    assert rig.withdraw(1) == [2]
    rig.subscription.stop()
    rig.subscription.reject(event(3, 1), Outcome(False, stage=Stage.DECODE, reason="no specversion"))
    assert rig.letters.sent == [2]
    assert rig.nothing_left()
