"""The channel `jetstream`: a broker's events in a stream, with a durable consumer for each trigger
(`gateway_core.contract.interfaces.Channel`).

Any number of gateways with the same config share the work: the server gives each event to one of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from gateway_transport.messages import unwritten
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import api
from nats.js.errors import NotFoundError

from gateway_core.contract.capabilities import Found, Repeated
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Overloaded, Refused, StartError, StorageError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Accepted, Filter, ReaderFeed, Receiver
from gateway_core.contract.one_line import one_line
from gateway_core.contract.replayable import Stretch
from gateway_core.contract.start_position import LATEST, StartPosition

from . import again, rewinds
from .client import Link, json_of
from .config import JetStreamChannelConfig
from .connect import check_keys
from .feed import JetStreamFeed
from .find import find
from .once import COMPARED, Once
from .sink import TOO_LARGE, outcome_of, size_of
from .stored import event_reader, event_writer
from .streams import ensure_stream
from .trim import settled_before

if TYPE_CHECKING:
    from gateway_core.contract.deduplicate_config import DeduplicateConfig

log = logging.getLogger("tidegate.nats")
_T = TypeVar("_T")

APPEND_S = 30.0
STOP_S = 10.0
JOIN_S = 20.0
INFO_S = 5.0
TRIM_S = 60.0
COMPARE_S = 5.0
MAX_WAITING = 100_000
"""The most events that may wait to be written, whatever their size."""


class JetStreamChannel:
    """One gateway's part of a broker's stream."""

    def __init__(self, options: JetStreamChannelConfig, context: BuildContext) -> None:
        check_keys(options, context)
        self.appended = 0
        self.failed = 0
        self._options = options
        self._context = context
        self._stream = options.stream_of(context.broker)
        self._subject = options.subject_of(context.broker)
        self._write = event_writer(options.codec, options.key, context)
        self._read = event_reader(options.codec, context)
        self._feeds: dict[str, JetStreamFeed] = {}
        self._gone: dict[str, JetStreamFeed] = {}  # detached, possibly still leaving
        self._state: api.StreamState | None = None
        self._refused_join: dict[str, StartError] = {}
        self._once: Once | None = None
        self._open = self._started = False
        self._tasks: TaskGroup
        self._link = Link(options, context.owner, context.clock, self._begin, run=self._watch)

    def deduplicate(self, config: DeduplicateConfig) -> None:
        """See `gateway_core.contract.capabilities.Deduplicates`. Its window is the stream's duplicate window."""
        self._once = Once(config, self._options, self._stream)

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Creates the stream if it does not exist. Raises `StartError` if the server is down or rejects the
        credentials, or if the stream is not as configured."""
        self._tasks = tasks
        self._started = True
        await self._link.start(tasks)
        if not self._link.connected:
            raise StartError(f"{self._context.owner}: {self._link.error}")

    async def open(self) -> None:
        """Makes the consumers of new subscriptions and begins to read. Raises `StartError` if one is not as
        configured."""
        async with anyio.create_task_group() as joining:
            for name in list(self._feeds):
                joining.start_soon(self._join, name)
        if self._refused_join:
            raise next(iter(self._refused_join.values()))
        self._open = True

    async def joined(self, name: str) -> None:
        """See `gateway_core.contract.capabilities.Joined`."""
        with anyio.move_on_after(JOIN_S):
            await self._feeds[name].joined.wait()

    async def stop(self) -> None:
        """Finishes appends, gives back what is not settled, and disconnects."""
        if not self._started:
            return
        self._open = False
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as stopping:
                for feed in self._feeds.values():
                    stopping.start_soon(feed.leave)
                for feed in self._gone.values():
                    stopping.start_soon(feed.left.wait)
            with anyio.move_on_after(STOP_S):
                while self._link.connected and self._link.waiting:  # noqa: ASYNC110 - once, at a stop
                    await anyio.sleep(0.005)
            await self._link.stop()

    async def _begin(self) -> None:
        window_s = self._once.window_s if self._once is not None else None
        wanted = self._options.stream_config(self._context.broker, window_s)
        self._state = (await ensure_stream(self._link.js, self._stream, wanted)).state

    async def _watch(self) -> None:
        """Looks at the stream from time to time, and removes what is settled and old."""
        passed = 0.0
        while True:
            await anyio.sleep(INFO_S)
            passed += INFO_S
            try:
                self._state = (await self._link.js.stream_info(self._stream)).state
                if passed >= TRIM_S and self._options.keep_s is not None:
                    passed = 0.0
                    needed = [feed.consumer for feed in self._feeds.values()]
                    before = await settled_before(self._link.js, self._stream, self._options.keep_s, needed)
                    if before > self._state.first_seq:
                        await self._link.js.purge_stream(self._stream, seq=before)
            except NotFoundError:
                self._link.end(f"the stream {self._stream} is gone")  # it is made again
                return
            except Exception as e:  # a server that is down is noticed otherwise
                log.debug("can't look at the stream %s: %s", self._stream, e)

    # -- appends ----------------------------------------------------------------------------------------------------

    def append_again(self, events: Sequence[Event], done: Accepted) -> None:
        """See `gateway_core.contract.capabilities.Deduplicates`."""
        self.append(events, done, again=True)

    def repeated(self, id: str, source: str | None) -> Sequence[Repeated]:
        """See `gateway_core.contract.capabilities.Deduplicates`."""
        return [] if self._once is None else self._once.known(id, source)

    def append(self, events: Sequence[Event], done: Accepted, *, again: bool = False) -> None:
        """Writes events as messages; calls `done(None)` once the stream has stored all of them."""
        link = self._link
        if link.queued_bytes >= self._options.max_queue_bytes or link.waiting >= MAX_WAITING:
            self.failed += len(events)
            done(Overloaded(f"NATS is behind: {link.error or 'too many events are waiting to be written'}"))
            return
        try:
            messages = [self._message(event) for event in events]
        except Exception as e:
            self.failed += len(events)
            done(unwritten(e))
            return
        if not messages:
            done(None)
            return
        most = link.max_payload
        if too_large := next((s for payload, headers in messages if (s := size_of(payload, headers)) > most), 0):
            self.failed += len(events)
            done(Refused(f"a message has {too_large} bytes; NATS accepts {most} (max_payload)", status=413))
            return
        appending = _Append(self, len(messages), done)
        if self._once is not None and not again:
            for event, (payload, headers) in zip(events, messages, strict=True):
                if (name := self._once.message_id(event)) is not None:
                    headers["Nats-Msg-Id"] = name
                answered = partial(appending.answered, self._once, event)
                link.request(self._subject, payload, headers, APPEND_S, answered)
            return
        for payload, headers in messages:
            link.request(self._subject, payload, headers, APPEND_S, appending)

    def found_again(self, once: Once, event: Event, sequence: int) -> None:
        """The stream has had this event, in the message with this sequence number. Whether that had other content is
        known later."""
        repeated = once.repeated(event, sequence)
        if once.comparing < COMPARED and self._open:
            once.comparing += 1
            self._tasks.start_soon(self._compare, once, event, repeated, sequence)
        else:
            once.uncompared += 1

    async def _compare(self, once: Once, event: Event, repeated: Repeated, sequence: int) -> None:
        first: Event | None = None
        try:
            with anyio.move_on_after(COMPARE_S):
                stored = await self._link.js.get_msg(self._stream, sequence)
                first = self._read(stored.headers, stored.data or b"")
        except Exception as e:  # it may be gone, and a server that is down is noticed otherwise
            log.debug("can't read message %d of the stream %s: %s", sequence, self._stream, e)
        finally:
            once.comparing -= 1
        once.compare(event, repeated, first)

    def _message(self, event: Event) -> tuple[bytes, dict[str, str]]:
        """Payload and headers. No other stream that has the subject may store it."""
        payload, headers = self._write(event)
        headers["Nats-Expected-Stream"] = self._stream
        return payload, headers

    async def find(self, id: str, source: str | None, rest: Any = None, within_s: float = 0.5) -> Found:
        """See `gateway_core.contract.capabilities.Searchable`."""
        return await find(self._link.js, self._stream, self._read, id, source, rest, within_s)

    async def stretch(self, from_ns: int, to_ns: int) -> Stretch:
        """See `gateway_core.contract.replayable.Replayable`; times are those at which the server stored a message."""
        return await self._past(again.stretch(self._link.js, self._stream, self._subject, from_ns, to_ns))

    async def read_again(self, partition: int, first: int, end: int, most: int) -> tuple[Sequence[Event], int]:
        """See `gateway_core.contract.replayable.Replayable`."""
        return await self._past(again.read(self._link.js, self._stream, self._subject, self._read, first, end, most))

    async def keep(self, name: str, firsts: Mapping[int, int] | None) -> None:
        """Nothing: the stream deletes by its own rules, and the gateway what is settled and older than `keep_s`."""

    async def keep_only(self, names: Container[str]) -> None:
        """Nothing."""

    async def check_rewind(self, name: str, workers: int) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""

    async def stand_aside(self, name: str) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""
        if (feed := self._feeds.get(name)) is not None:
            await feed.stand_aside()

    async def settled(self, name: str) -> Callable[[int], bool]:
        """See `gateway_core.contract.replayable.Rewinds`."""
        feed = self._feeds.get(name)
        info = await self._past(self._link.js.consumer_info(self._stream, self._options.consumer_of(name)))
        floor = info.ack_floor.stream_seq if info.ack_floor else 0

        def settled(position: int) -> bool:
            if position <= floor:
                return True
            return feed is not None and feed.delivery_state(position) in ("passed", "settled", "before")

        return settled

    async def decide_rewind(self, name: str, firsts: Mapping[int, int]) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""
        consumer, folder = self._options.consumer_of(name), self._context.data_dir
        await self._past(rewinds.set_back(self._link.js, folder, self._stream, consumer, firsts[0]))

    async def rewind(self, name: str, firsts: Mapping[int, int]) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""
        if (feed := self._feeds.get(name)) is not None:
            feed.come_back(self._tasks, firsts[0])
            await self.joined(name)

    async def stay(self, name: str) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""
        if (feed := self._feeds.get(name)) is not None:
            feed.come_back(self._tasks, None)

    async def _past(self, call: Awaitable[_T]) -> _T:
        try:
            return await call
        except (NatsError, OSError) as e:  # TimeoutError is an OSError
            raise StorageError(f"the stream {self._stream} can't be read: {one_line(e)}") from e

    def preview(self, event: Event) -> Message:
        """See `gateway_core.contract.capabilities.Previewing`: the message that would store this event."""
        payload, headers = self._message(event)
        shown = [(name.encode(), value.encode()) for name, value in headers.items()]
        return Message(shown, payload, event.key, url=f"{self._options.servers[0]}/{self._subject}")

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def attach(self, name: str, filter: Filter, receiver: Receiver, *, start: StartPosition = LATEST) -> JetStreamFeed:
        """Adds a subscription: the consumer `PREFIX_NAME`. Positions are sequence numbers of partition 0, times those
        at which the server stored a message."""
        consumer = self._options.consumer_of(name)
        feed = JetStreamFeed(consumer, filter, receiver, self._options, self._context, start)
        self._feeds[name] = feed
        if self._open:
            self._tasks.start_soon(self._join_later, name, feed, self._gone.get(name))
        return feed

    def attach_reader(self, name: str, filter: Filter, *, start: StartPosition = LATEST) -> ReaderFeed:
        """Raises `StartError`: a sink that reads the channel itself needs offsets, which JetStream's acknowledgements
        are not."""
        raise StartError(
            f"{self._context.owner}: the trigger {name} has a sink that reads its channel itself, which the channel"
            f" `jetstream` does not offer: use the channel `log` or `kafka`"
        )

    def detach(self, name: str) -> None:
        """Ends a subscription; the server keeps its consumer."""
        feed = self._gone[name] = self._feeds.pop(name)
        self._tasks.start_soon(self._leave, name, feed)

    async def _join(self, name: str) -> None:
        try:
            await self._feeds[name].join(self._tasks)
        except StartError as e:
            self._refused_join[name] = e

    async def _join_later(self, name: str, feed: JetStreamFeed, after: JetStreamFeed | None) -> None:
        if after is not None:
            await after.left.wait()
        try:
            await feed.join(self._tasks)
        except StartError as e:
            log.error("%s", e)

    async def _leave(self, name: str, feed: JetStreamFeed) -> None:
        await feed.leave()
        if self._gone.get(name) is feed:
            del self._gone[name]

    # -- status -----------------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """The channel's status. What the stream holds is a few seconds old."""
        error = self._link.error
        found: dict[str, Any] = {
            "writable": self._open and error is None,
            "error": error,
            "failed": self.failed,
            "stream": self._stream,
            "consumers": {feed.consumer: {"lag": feed.lag(), "error": feed.fault} for feed in self._feeds.values()},
        }
        if self._once is not None:
            found["deduplication"] = self._once.info()
        if (state := self._state) is not None:
            found |= {
                "events": state.messages,
                "bytes": state.bytes,
                "first": state.first_seq,
                "next": state.last_seq + 1,
            }
        return found


class _Append:
    """Collects the answers to messages that were appended together."""

    __slots__ = ("_channel", "_done", "_left", "_never", "_repeated", "_size", "_why")

    def __init__(self, channel: JetStreamChannel, size: int, done: Accepted) -> None:
        self._channel = channel
        self._size = self._left = size
        self._done = done
        self._why = ""
        self._never = False
        self._repeated: list[tuple[Once, Event, int]] = []

    def answered(self, once: Once, event: Event, answer: Msg | None, why: str) -> None:
        """As `__call__`, for an event that the stream may have had."""
        if answer is not None and b'"duplicate"' in answer.data:
            ack = json_of(answer.data)
            if ack.get("duplicate") is True and "error" not in ack:
                self._repeated.append((once, event, ack["seq"]))
        self(answer, why)

    def __call__(self, answer: Msg | None, why: str) -> None:
        outcome = outcome_of(answer, why, TOO_LARGE)
        if not outcome.delivered:
            self._why = outcome.reason
            self._never = self._never or not outcome.retry
        self._left -= 1
        if self._left:
            return
        channel = self._channel
        if not self._why:
            channel.appended += self._size - len(self._repeated)
            for once, event, sequence in self._repeated:
                channel.found_again(once, event, sequence)
            self._done(None)
            return
        channel.failed += self._size
        if self._never:
            self._done(Refused(f"NATS rejects the event: {self._why}", status=413))
        else:
            self._done(Overloaded(f"NATS did not take the event: {self._why}"))
