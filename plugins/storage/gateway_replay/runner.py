"""One replay while it runs: reads its events, hands them to the trigger, and notes what became of them.

Few of its events are under way at once, a quarter of what the trigger may have in flight, so live deliveries keep their
share. Where the trigger has an order, or one was asked for, an event waits until the one before it with its key is
settled, whatever a reload does to the trigger in between. Progress is written twice a second: what was settled since
then is sent again after a crash.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing, suppress
from functools import partial
from heapq import heappop, heappush

import anyio
import anyio.lowlevel
import msgspec
from anyio import to_thread

from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event, id_of, split_position
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.moments import written
from gateway_core.contract.one_line import one_line
from gateway_core.contract.replayable import Replayable
from gateway_core.contract.services import GatewayView

from .job import Job, JobFiles, firsts_of
from .pace import Pace
from .selection import CHUNK, STEP, counted, extra_filter, filtered, matcher
from .sending import Delivers, SinkDelivery

log = logging.getLogger("tidegate.replay")

AHEAD = 256
"""How many events are read and not settled, at most."""
MOST_BYTES = 16 * 1024 * 1024
"""Of their data, about."""
SAVE_S = 0.5
KEEP_S = 5.0
POLL_S = 0.1
END_S = 60.0
"""How long a replay that ends waits for attempts under way."""
MARK = "tidegatereplay"


_END, _NONE_HERE = Event({}), Event({})


class Ended(Exception):
    """The replay must not go on now."""


class _Entry:
    """An event that is not settled. `key` is what it is ordered by, None if nothing waits for it."""

    __slots__ = ("delivery", "event", "key", "number", "position")

    def __init__(self, number: int, event: Event, key: Hashable | None) -> None:
        self.number = number
        self.event = event
        self.position = event.position
        self.key = key
        self.delivery: Delivers | None = None

    def __lt__(self, other: _Entry) -> bool:
        return self.number < other.number


class Run:
    """Runs one job until it ends, is paused, or the gateway stops."""

    def __init__(self, gateway: GatewayView, job: Job, files: JobFiles) -> None:
        self._gateway = gateway
        self.job = job
        self._files = files
        self._extra = extra_filter(gateway, job.wanted.filters)
        self._ready: list[_Entry] = []
        self._behind: dict[Hashable, deque[_Entry]] = {}
        self._out: dict[int, _Entry] = {}
        self._open: dict[int, dict[int, None]] = {p: {} for p in job.parts}  # read and not settled
        self._read = firsts_of(job)
        self._beyond = {p: set(numbers) for p, numbers in job.beyond.items()}
        self._number = self._size = 0
        self._woken = anyio.Event()
        self._next_at = 0.0
        self._pace = Pace(self._accepted)
        self._saved_at = self._kept_at = 0.0
        self._ticked = anyio.current_time()
        self._sink: SinkDelivery | None = None
        self._matches: Callable[[Event], bool] = _nothing
        self.wish = ""
        """What somebody asked for meanwhile: "paused" or "cancelled"."""
        self.over = False
        """No attempt is under way any more: the gateway has stopped."""

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Returns when it has ended or was paused: then nothing is under way, and all is written."""
        job = self.job
        try:
            await self._begin()
            if job.wanted.to_sink:
                async with SinkDelivery(self._gateway, job) as self._sink:
                    await self._send_all()
            else:
                await self._send_all()
            job.state, job.detail = "done", self._lacks()
        except Ended:
            if self.wish:
                job.state, job.detail = self.wish, ""
        except Exception as e:
            log.warning("replay %s failed: %s", job.id, one_line(e))
            job.state, job.detail = "failed", one_line(e, 300)
        with anyio.CancelScope(shield=True):
            await self._finish()

    def _lacks(self) -> str:
        """What was counted and is not there any more."""
        self.job.gone = max(0, self.job.counts.count - self.job.handled)
        if not self.job.gone:
            return ""
        return f"{self.job.gone:,} of the events are not in the channel any more, or the trigger's filter has changed"

    async def _begin(self) -> None:
        job = self.job
        while not self._gateway.started:
            self._check()
            await anyio.sleep(POLL_S)
        channel = await self._channel()
        await channel.keep(job.id, firsts_of(job))
        if job.state == "counting":
            trigger = self._gateway.topology.triggers[job.wanted.trigger]
            wanted = matcher(trigger, self._extra, job.wanted.from_ns, job.wanted.to_ns)
            job.counts = await counted(channel, job.parts, wanted)
            self._check()
        job.state = "running"
        await self._save()

    async def _finish(self) -> None:
        delivery = self._delivery()
        if delivery is not None and self._out:
            delivery.end_again()
        with anyio.move_on_after(END_S):
            while self._out and not self.over:
                self._forsake()
                await self._wait(POLL_S)
        self._tick()
        with suppress(StorageError):
            if self.job.ended and (trigger := self._gateway.topology.triggers.get(self.job.wanted.trigger)) is not None:
                channel = trigger.broker.channel
                if isinstance(channel, Replayable):
                    await channel.keep(self.job.id, None)
        if self.job.ended:
            self.job.ended_ns = self._gateway.clock.now_ns()
        await self._save()

    def _accepted(self) -> int:
        """How many events all channels of this process have stored."""
        return sum(broker.channel.appended for broker in self._gateway.topology.brokers.values())

    def _check(self) -> None:
        if self.wish or self._gateway.stopping:
            raise Ended

    async def _channel(self) -> Replayable:
        """The channel, once the trigger is there."""
        while True:
            self._check()
            trigger = self._gateway.topology.triggers.get(self.job.wanted.trigger)
            if trigger is not None and trigger.broker.name == self.job.broker:
                channel = trigger.broker.channel
                if isinstance(channel, Replayable):
                    return channel
            self.job.detail = f"trigger {self.job.wanted.trigger!r} is not in the config now"
            await anyio.sleep(POLL_S)

    def _delivery(self) -> Delivers | None:
        if self._sink is not None:
            return self._sink
        trigger = self._gateway.topology.triggers.get(self.job.wanted.trigger)
        return trigger.delivery if trigger is not None and trigger.broker.name == self.job.broker else None

    # -- sending ----------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        async with aclosing(self._events()) as events:
            more = True
            while True:
                self._check()
                looking = False
                while more and self._unsettled < AHEAD and len(self._ready) < STEP and self._size < MOST_BYTES:
                    event = await anext(events, _END)
                    more = event is not _END
                    if looking := event is _NONE_HERE:
                        break  # what is ready must not wait until others are found
                    if more:
                        self._enter(event)
                if not more and not self._unsettled:
                    return
                wait = self._hand_over()
                self._forsake()
                await self._progress()
                await self._pace.moment()
                if wait and not looking:
                    await self._wait(wait)

    @property
    def _unsettled(self) -> int:
        return sum(map(len, self._open.values()))

    async def _events(self) -> AsyncGenerator[Event, None]:
        """The selected events that are not settled, those of all partitions by time. `_NONE_HERE` now and then, while
        there are none."""
        streams = {p: self._of(p) for p in self.job.parts}
        heads: dict[int, Event] = {}
        lacking = [*streams]
        try:
            while heads or lacking:
                while lacking:
                    event = await anext(streams[lacking[-1]], _END)
                    if event is _NONE_HERE:
                        yield event
                        continue
                    p = lacking.pop()
                    if event is not _END:
                        heads[p] = event
                if heads:
                    p = min(heads, key=lambda p: (heads[p].received_ns, p))
                    lacking.append(p)
                    yield heads.pop(p)
        finally:
            for stream in streams.values():
                await stream.aclose()

    async def _of(self, partition: int) -> AsyncGenerator[Event, None]:
        end = self.job.parts[partition][1]
        at = self._read[partition]
        while at < end:
            channel = await self._channel()
            try:
                events, at = await channel.read_again(partition, at, end, CHUNK)
            except StorageError as e:
                self.job.detail = one_line(e, 300)
                await anyio.sleep(1.0)
                continue
            wanted = self._wanted()
            for number, event in enumerate(events):
                if number % STEP == STEP - 1:
                    await anyio.lowlevel.checkpoint()
                    wanted = self._wanted()
                settled = split_position(event.position)[1] in self._beyond.get(partition, ())
                if not settled and wanted(event):
                    yield event
            self._read[partition] = at
            yield _NONE_HERE

    def _wanted(self) -> Callable[[Event], bool]:
        """The trigger's filter as it is now; the last one that it had while it is not in the config."""
        trigger = self._gateway.topology.triggers.get(self.job.wanted.trigger)
        if trigger is not None:
            wanted = self.job.wanted
            self._matches = matcher(trigger, self._extra, wanted.from_ns, wanted.to_ns)
        return self._matches

    def _enter(self, event: Event) -> None:
        partition, number = split_position(event.position)
        self._open[partition][number] = None
        self._number += 1
        self._size += len(event.data or b"")
        entry = _Entry(self._number, event, self._key(event))
        if entry.key is None:
            heappush(self._ready, entry)
        elif entry.key in self._behind:
            self._behind[entry.key].append(entry)
        else:
            self._behind[entry.key] = deque()
            heappush(self._ready, entry)

    def _key(self, event: Event) -> Hashable | None:
        delivery = self._delivery()
        if self.job.wanted.order == "key":
            return event.key or event.attributes.get("partitionkey")
        if delivery is None or delivery.order_key_of is None:
            return None
        try:
            return delivery.order_key_of(event)
        except Exception:
            return None  # it goes to the dead letter

    def _hand_over(self) -> float:
        """Hands over what may go now. Returns how long to wait, unless an event is settled before."""
        delivery = self._delivery()
        if delivery is None:
            self.job.detail = f"trigger {self.job.wanted.trigger!r} is not in the config now"
            return POLL_S
        share = max(1, delivery.policy.max_in_flight // 4)
        rate, now = self.job.wanted.rate, anyio.current_time()
        self._next_at = max(self._next_at, now - 0.1)
        burst = self._pace.burst
        while self._ready and len(self._out) < share:
            if not burst:
                return 0.0
            burst -= 1
            if rate and self._next_at > now:
                return min(self._next_at - now, POLL_S)
            entry = self._ready[0]
            event = entry.event
            if self.job.wanted.mark:
                event = event.with_attributes(**{MARK: self.job.id})
            self._out[entry.position] = entry
            entry.delivery = delivery
            heappop(self._ready)
            if not delivery.again(event, partial(self._settled, entry), by=self.job.id):
                del self._out[entry.position]
                heappush(self._ready, entry)
                why = "is paused" if delivery.paused else "has no room now"
                self.job.detail = f"trigger {self.job.wanted.trigger!r} {why}"
                return POLL_S
            self.job.detail = ""
            if rate:
                self._next_at += 1 / rate
        return POLL_S

    def _settled(self, entry: _Entry, result: str, outcome: Outcome | None = None) -> None:
        if self._out.get(entry.position) is not entry:
            return  # given up waiting for it: it was handed over again
        del self._out[entry.position]
        self._woken.set()
        if result == "ended":
            heappush(self._ready, entry)
            return
        job = self.job
        if result == "delivered":
            job.delivered += 1
        elif result == "given_up":
            job.given_up += 1
            reason = outcome.reason if self._sink and outcome else "it is in the dead letter"
            job.fault(str(id_of(entry.event)), reason)
        else:
            job.unwanted += 1
        partition, number = split_position(entry.position)
        del self._open[partition][number]
        self._size -= len(entry.event.data or b"")
        self._beyond.setdefault(partition, set()).add(number)
        if entry.key is not None:
            if behind := self._behind[entry.key]:
                heappush(self._ready, behind.popleft())
            else:
                del self._behind[entry.key]

    def _forsake(self) -> None:
        """Events that a trigger of before a reload still had and can't settle any more are handed over again."""
        delivery = self._delivery()
        for entry in [*self._out.values()]:
            if entry.delivery is not delivery and entry.delivery is not None and not entry.delivery.in_flight:
                self._settled(entry, "ended")

    async def _wait(self, seconds: float) -> None:
        if not self._woken.is_set():
            with anyio.move_on_after(seconds):
                await self._woken.wait()
        else:
            await anyio.lowlevel.checkpoint()
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Somebody has a wish."""
        self._woken.set()

    def told_of(self, event: Event) -> str:
        """What it does with an event; empty if nothing."""
        wanted, trigger = self.job.wanted, self._gateway.topology.triggers.get(self.job.wanted.trigger)
        if trigger is None:
            return ""
        to = f" to {wanted.to_sink}" if wanted.to_sink else ""
        if not event.position:
            if not filtered(trigger, self._extra)(event):
                return ""
            span = f"accepted from {written(wanted.from_ns)} to before {written(wanted.to_ns)}"
            return f"replay {self.job.id} sends such events{to} again, if they were {span}"
        partition, number = split_position(event.position)
        first, end = self.job.parts.get(partition, (0, 0))
        if not first <= number < end or not matcher(trigger, self._extra, wanted.from_ns, wanted.to_ns)(event):
            return ""
        before = max(self._read[partition], self.job.next.get(partition, 0))
        if number not in self._open[partition] and (number < before or number in self._beyond.get(partition, ())):
            return f"replay {self.job.id} has sent it{to} again"
        return f"replay {self.job.id} sends it{to} again"

    # -- progress ---------------------------------------------------------------------------------------------------

    async def _progress(self) -> None:
        now = anyio.current_time()
        if now - self._saved_at >= SAVE_S:
            await self._save()
        if now - self._kept_at >= KEEP_S:
            self._kept_at = now
            with suppress(StorageError):
                await (await self._channel()).keep(self.job.id, self.job.next)

    def _tick(self) -> None:
        now = anyio.current_time()
        if self.job.state == "running":
            self.job.running_s += now - self._ticked
        self._ticked = now

    async def _save(self) -> None:
        self._tick()
        self._saved_at = anyio.current_time()
        job = self.job
        for partition, (_, end) in job.parts.items():
            unsettled = self._open[partition]
            job.next[partition] = next(iter(unsettled)) if unsettled else min(self._read[partition], end)
            beyond = self._beyond.get(partition, set())
            beyond -= {n for n in beyond if n < job.next[partition]}
            job.beyond[partition] = sorted(beyond)
        content = msgspec.json.encode(job)
        try:
            await to_thread.run_sync(self._files.save, content, job.id)
        except OSError as e:
            log.warning("the progress of replay %s can't be written: %s", job.id, one_line(e))


def _nothing(event: Event) -> bool:
    return False
