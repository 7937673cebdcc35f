"""What every durable channel must do (`gateway_core.contract.interfaces.Channel`)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager

import anyio
import pytest

from gateway_core.contract.errors import StartError
from gateway_core.contract.event import PARTITION_BITS, Event, split_position
from gateway_core.contract.filters import attributes_filter, match_all
from gateway_core.contract.interfaces import Channel, Feed, Filter, Outcome
from gateway_core.contract.start_position import EARLIEST, LATEST, StartPosition

from ..vectors import VECTORS, texts
from .kit import PATIENCE_S, Kit, Suite, until
from .sink import numbered

APART_S = 0.02
"""Between events whose times must be different, to the millisecond."""


class Subscription:
    """Accepts events while it holds fewer than `room`, and acknowledges them on request."""

    def __init__(self, room: int = 1_000_000, *, filter: Filter | None = None, start: StartPosition = LATEST) -> None:
        self.room = room
        self.filter = filter or match_all()
        self.start = start
        self.events: list[Event] = []
        self.held: list[int] = []
        self.rejected: list[Event] = []
        self.feed: Feed | None = None

    def attach(self, channel: Channel, name: str) -> Subscription:
        self.feed = channel.attach(name, self.filter, self, start=self.start)
        return self

    @property
    def ids(self) -> list[str]:
        return [str(e.attributes["id"]) for e in self.events]

    def ack(self, position: int | None = None) -> None:
        """Acknowledges one position, or everything held."""
        assert self.feed is not None
        for held in [position] if position is not None else list(self.held):
            self.held.remove(held)
            self.feed.ack(held)

    def resume(self) -> None:
        assert self.feed is not None
        self.feed.resume()

    async def until(self, count: int) -> None:
        await until(lambda: len(self.events) >= count, f"{count} events to be offered; {len(self.events)} were")

    async def until_all(self, wanted: list[str]) -> None:
        await until(lambda: set(wanted) <= set(self.ids), f"{wanted} to be offered; {self.ids} were")

    def offer(self, event: Event) -> bool:
        if len(self.held) >= self.room:
            return False
        self.events.append(event)
        self.held.append(event.position)
        return True

    def reject(self, event: Event, outcome: Outcome) -> None:
        self.rejected.append(event)

    def withdraw(self, partition: int) -> list[int]:
        """Withdraws nothing: no held event is being processed."""
        gone = [position for position in self.held if position >> PARTITION_BITS == partition]
        self.held = [position for position in self.held if position not in gone]
        return gone


async def append(channel: Channel, events: list[Event]) -> None:
    """Returns when the events are stored; raises the channel's error otherwise."""
    answers: list[BaseException | None] = []
    channel.append(events, answers.append)
    await until(lambda: bool(answers), "the append to be answered")
    assert len(answers) == 1
    if answers[0] is not None:
        raise answers[0]


def received(events: list[Event]) -> list[Event]:
    """These events, as if a source had taken them now."""
    for event in events:
        event.received_ns = time.time_ns()
    return events


def ids(first: int, end: int) -> list[str]:
    return [f"n{n}" for n in range(first, end)]


class ChannelSuite(Suite):
    """Subclass it and write `build`, which must find what an earlier channel of the same kit stored:

    class TestMine(ChannelSuite):
        def build(self, kit):
            return kit.channel("mine")

    Class attributes for stores outside of the gateway with weaker guarantees:

    `starts` has the kinds of `StartPosition` that the channel has; `attach` must refuse others. `ordered` is False if
    only events of one partition keep their order. `each_place` is False if a restart repeats everything after the first
    unacknowledged event, not only that event. `typed` is False if all attributes come back as text. `counts` is False
    if `info` does not count stored events.
    """

    pytestmark = pytest.mark.anyio
    ordered = True
    each_place = True
    typed = True
    counts = True
    starts: Container[str] = ("earliest", "latest", "time", "positions")

    def build(self, kit: Kit) -> Channel:
        raise NotImplementedError

    async def test_every_subscription_gets_every_event_in_order(self, kit: Kit) -> None:
        one, two = Subscription(), Subscription()
        async with self.opened(kit, one=one, two=two) as channel:
            await append(channel, numbered(50))
            await append(channel, numbered(50, 50))
            await one.until(100)
            await two.until(100)
            for it in (one, two):
                self.in_order(it, ids(0, 100))
            assert channel.appended == 100

    async def test_an_event_comes_out_as_it_went_in(self, kit: Kit) -> None:
        events = [v.event for v in VECTORS]
        events.append(Event({"specversion": "1.0", "id": "k", "source": "/s", "type": "t"}, b"", key=b"\x00key"))
        first, second = Subscription(), Subscription(start=EARLIEST)
        async with self.opened(kit, first=first) as channel:
            await append(channel, list(events))
            await first.until(len(events))
            self.the_same(first.events, events)
        async with self.opened(kit, second=second):
            await second.until(len(events))
            self.the_same(second.events, events)

    async def test_only_what_matches_is_offered(self, kit: Kit) -> None:
        chosen = Subscription(filter=attributes_filter({"id": "n3"}))
        every = Subscription()
        async with self.opened(kit, chosen=chosen, every=every) as channel:
            await append(channel, numbered(6))
            await every.until(6)
            await chosen.until(1)
            assert chosen.ids == ["n3"]

    async def test_a_filter_that_raises_counts_as_one_that_matches(self, kit: Kit) -> None:
        """And no other subscription misses an event, neither now nor after a restart."""
        asked = 0

        def raises(event: Event) -> bool:
            nonlocal asked
            asked += 1
            if asked % 2:
                raise ValueError("a filter of the suite's")
            return True

        bad, good = Subscription(filter=Filter(raises)), Subscription()
        slow = Subscription(room=2, filter=Filter(raises))
        async with self.opened(kit, bad=bad, good=good, slow=slow) as channel:
            await append(channel, numbered(6))
            await append(channel, numbered(4, 6))
            for it in (bad, good):
                await it.until(10)
                self.in_order(it, ids(0, 10))
            for count in (2, 4, 6, 8, 10):
                await slow.until(count)
                slow.ack()
                slow.resume()
            self.in_order(slow, ids(0, 10))
            good.ack()
        back = Subscription(filter=Filter(raises))
        async with self.opened(kit, bad=back, good=Subscription()):
            await back.until(10)
            self.in_order(back, ids(0, 10))

    async def test_a_full_subscription_goes_on_after_resume_and_holds_up_nobody(self, kit: Kit) -> None:
        slow, quick = Subscription(room=2), Subscription()
        async with self.opened(kit, slow=slow, quick=quick) as channel:
            await append(channel, numbered(7))
            await quick.until(7)
            await slow.until(2)
            await anyio.sleep(0.02)
            assert len(slow.ids) == 2
            for count in (4, 6, 7):
                slow.ack()
                slow.resume()
                await slow.until(count)
            self.in_order(slow, ids(0, 7))

    async def test_what_was_not_acknowledged_comes_again_after_a_restart(self, kit: Kit) -> None:
        before, after = Subscription(), Subscription()
        async with self.opened(kit, it=before) as channel:
            await append(channel, numbered(6))
            await before.until(6)
            dealt_with = [before.events[n] for n in (0, 1, 3)]  # out of order: 2 is still in flight
            for event in dealt_with:
                before.ack(event.position)
        async with self.opened(kit, it=after) as channel:
            await append(channel, numbered(1, 6))
            gone = [str(e.attributes["id"]) for e in dealt_with]
            left = [n for n in ids(0, 7) if n not in gone]
            await after.until_all(left)
            self.in_order(after, left, None if self.each_place else [n for n in after.ids if n not in gone])

    async def test_places_survive_a_restart(self, kit: Kit) -> None:
        before, after = Subscription(), Subscription()
        async with self.opened(kit, it=before) as channel:
            await append(channel, numbered(5))
            await before.until(5)
            before.ack()
        async with self.opened(kit, it=after) as channel:
            await append(channel, numbered(1, 5))
            await after.until(1)
            assert after.ids == ["n5"]

    async def test_events_wait_for_a_subscription_that_is_known(self, kit: Kit) -> None:
        async with self.opened(kit, it=Subscription(room=0)) as channel:
            await append(channel, numbered(5))
        back = Subscription()
        async with self.opened(kit, it=back):
            await back.until(5)
            self.in_order(back, ids(0, 5))

    async def test_a_new_subscription_begins_at_the_end(self, kit: Kit) -> None:
        await self._stored(kit)
        await self._begins(kit, LATEST, ids(6, 8))

    async def test_a_new_subscription_begins_at_the_beginning(self, kit: Kit) -> None:
        await self._stored(kit)
        await self._begins(kit, EARLIEST, ids(0, 8))

    async def test_a_new_subscription_begins_at_a_time(self, kit: Kit) -> None:
        """Before all events, between them, and after them; at one that is still to come it begins at the end."""
        _, between_ns = await self._stored(kit)
        after_ns = time.time_ns()
        await self._begins(kit, StartPosition.at_time(0), ids(0, 8))
        await self._begins(kit, StartPosition.at_time(between_ns), ids(3, 10))
        if "time" in self.starts:
            await self._begins(kit, StartPosition.at_time(after_ns), ids(6, 12))
            await self._begins(kit, StartPosition.at_time(after_ns + 3_600_000_000_000), ids(12, 14))

    async def test_a_new_subscription_begins_at_positions(self, kit: Kit) -> None:
        """Those of events, of the first that follows the last, and of one that will never be."""
        old, _ = await self._stored(kit)
        middle: dict[int, int] = {}
        end: dict[int, int] = {}
        wanted: list[str] = []
        for event in old.events:
            partition, number = split_position(event.position)
            if int(str(event.attributes["id"])[1:]) >= 2:
                middle.setdefault(partition, number)
                wanted.append(str(event.attributes["id"]))
            end[partition] = number + 1
        for partition, number in end.items():
            middle.setdefault(partition, number)  # none of its events is wanted
        await self._begins(kit, StartPosition.at_positions(middle), [*wanted, *ids(6, 8)])
        if "positions" in self.starts:
            await self._begins(kit, StartPosition.at_positions(end), ids(6, 10))
            far = StartPosition.at_positions({partition: number + 1000 for partition, number in end.items()})
            await self._begins(kit, far, ids(10, 12))

    async def _stored(self, kit: Kit) -> tuple[Subscription, int]:
        """Stores six events, and returns a subscription that was offered them, and a time between n2 and n3."""
        old = Subscription()
        async with self.opened(kit, old=old) as channel:
            await append(channel, received(numbered(3)))
            await anyio.sleep(APART_S)
            between_ns = time.time_ns()
            await anyio.sleep(APART_S)
            await append(channel, received(numbered(3, 3)))
            await old.until(6)
            old.ack()
        await anyio.sleep(APART_S)
        return old, between_ns

    async def _begins(self, kit: Kit, start: StartPosition, wanted: list[str]) -> None:
        """A new subscription is offered these events, the last two of which are stored only then; or the channel says
        that it has no such start."""
        new = Subscription(start=start)
        name = f"new{wanted[0]}{wanted[-1]}"
        if start.kind not in self.starts:
            with pytest.raises(StartError):
                self.build(kit).attach(name, match_all(), new, start=start)
            return
        async with self.opened(kit, **{name: new}) as channel:
            last = int(wanted[-1][1:])
            await append(channel, received(numbered(2, last - 1)))
            await new.until(len(wanted))
            self.in_order(new, wanted)
            new.ack()

    async def test_a_detached_subscription_keeps_its_place(self, kit: Kit) -> None:
        first = Subscription()
        async with self.opened(kit, it=first) as channel:
            await append(channel, numbered(2))
            await first.until(2)
            first.ack()
            channel.detach("it")
            await append(channel, numbered(2, 2))
            await anyio.sleep(0.02)
            self.in_order(first, ids(0, 2))  # nothing is offered after detach
            again = Subscription().attach(channel, "it")
            await again.until(2)
            self.in_order(again, ids(2, 4))

    async def test_lag_counts_what_is_not_dealt_with(self, kit: Kit) -> None:
        it = Subscription()
        async with self.opened(kit, it=it) as channel:
            await append(channel, numbered(4))
            await it.until(4)
            assert it.feed is not None
            assert it.feed.lag() == 4
            it.ack(it.events[0].position)
            assert it.feed.lag() == 3
            it.ack()
            assert it.feed.lag() == 0

    async def test_appends_at_once_are_each_answered_once(self, kit: Kit) -> None:
        it = Subscription()
        async with self.opened(kit, it=it) as channel:
            answers: list[list[BaseException | None]] = [[] for _ in range(100)]
            for n, found in enumerate(answers):
                channel.append(numbered(1, n), found.append)
            await until(lambda: all(answers), "all appends to be answered")
            await it.until(100)
            assert answers == [[None]] * 100
            self.in_order(it, ids(0, 100))

    async def test_a_stop_finishes_appends(self, kit: Kit) -> None:
        answers: list[BaseException | None] = []
        async with self.opened(kit, it=Subscription(room=0)) as channel:
            for n in range(50):
                channel.append(numbered(1, n), answers.append)
        assert len(answers) == 50
        stored = [f"n{n}" for n, answer in enumerate(answers) if answer is None]
        back = Subscription()
        async with self.opened(kit, it=back):
            await back.until(len(stored))
            assert set(stored) <= set(back.ids)

    async def test_it_tells_of_itself(self, kit: Kit) -> None:
        wanted = Subscription(filter=attributes_filter({"id": "n0"}))
        async with self.opened(kit, it=wanted) as channel:
            await append(channel, numbered(3))
            await wanted.until(1)
            info = channel.info()
            assert info["writable"] is True
            if not self.counts:
                return
            assert info["events"] == 3
            assert info["unrouted"] == 2
            assert info["next"] - info["first"] == 3
            assert info["bytes"] >= 0

    # -- parts -------------------------------------------------------------------------------------------------------

    def in_order(self, it: Subscription, wanted: list[str], found: list[str] | None = None) -> None:
        """No event lost or repeated, order kept and positions increasing: overall, or per partition."""
        assert sorted(it.ids if found is None else found) == sorted(wanted)
        if self.ordered:
            assert (it.ids if found is None else found) == wanted
        for partition in {0} if self.ordered else {e.position >> PARTITION_BITS for e in it.events}:
            its = [e for e in it.events if self.ordered or e.position >> PARTITION_BITS == partition]
            positions = [e.position for e in its]
            assert positions == sorted(set(positions)), "positions grow"
            numbers = [int(str(e.attributes["id"])[1:]) for e in its]
            assert numbers == sorted(numbers)

    def the_same(self, found: list[Event], wanted: list[Event]) -> None:
        """These events came, as they were."""
        if not self.typed:
            wanted = [Event(dict(texts(e)), e.data, e.json_data, e.key) for e in wanted]
        if not self.ordered:
            assert len(found) == len(wanted)
            assert all(event in found for event in wanted)
        else:
            assert found == wanted

    @asynccontextmanager
    async def opened(self, kit: Kit, **subscriptions: Subscription) -> AsyncIterator[Channel]:
        """A channel that has started, with these subscriptions by name; stopped at the end."""
        channel = self.build(kit)
        async with anyio.create_task_group() as tasks:
            await channel.start(tasks)
            for name, subscription in subscriptions.items():
                subscription.attach(channel, name)
            await channel.open()
            yield channel
            with anyio.fail_after(PATIENCE_S):
                await channel.stop()
            tasks.cancel_scope.cancel()
