"""What each kind of component must be able to do. The core talks to plugins through these protocols alone.

What they may be able to do besides stands in `gateway_core.abilities`. Two rules hold everywhere:

* A `done` callback is called exactly once, on the event loop's thread, and must not raise.
* `start` returns when the component works; `stop` takes no new work, finishes what it began, and may be cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from anyio.abc import TaskGroup

from .asyncsink import AsyncSink as AsyncSink
from .errors import Refused
from .event import Event, Message
from .outcome import DELIVERED as DELIVERED
from .outcome import Outcome as Outcome

if TYPE_CHECKING:
    from .tracing import Tracer

Accepted = Callable[[BaseException | None], None]
"""Called with None once the events are safe, else with the error (`Overloaded`, `StorageError`; `NotDelivered` where it
won't help to send them again)."""


Send = Callable[[Event, float, Callable[[Outcome], None]], None]
"""`Sink.send`."""


class Intake(Protocol):
    """Where a source puts what it takes. Given to it by the core."""

    stores: bool
    """True where `accept` brings events into storage, many as quickly as one. False where it follows each event to its
    destination: a source that reads many at once hands them over one by one, to know of each when it is there."""

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        """Hands over events that came together. `done(None)` follows when all are in stable storage (a broker's
        channel) or at their destination (a bridge); only then may the source acknowledge them. All or none."""

    def refuse(self, error: Refused) -> None:
        """Counts an input that can't be taken. The source answers its sender itself."""

    def attempted(self, event: Event, outcome: Outcome, seconds: float) -> None:
        """Tells of an attempt that the source made by itself, because its sender waits for the answer."""

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted, stage: str = "delivery") -> None:
        """Puts an event that the source could not bring to `dest` by itself into the dead letter, with the facts; or,
        with the stage "decode", what it made of an input that is no event. `done(None)` follows when it is safe there,
        an error where there is no dead letter."""

    def withdraw(self, partition: int) -> Sequence[int]:
        """The events of this partition (the upper bits of their positions) are someone else's now: those that nothing
        is being done about are dropped, without `done`. Returns their positions."""


class Source(Protocol):
    """A way in. `address` is what a sender needs (a URL); known after `start`.

    A source that fetches its events, and can keep those that are not accepted, sets `pulls` to True: nobody waits for
    its answer, so a bridge from it retries for as long as it takes. It may be `Watched` (`gateway_core.abilities`), and
    have `take_over(old, intake, tasks)`, a `start` that takes the address of another source of its kind, which is
    stopped by that; it returns False where it can't."""

    address: str

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Begins to take events. Raises `StartError` where it can't (port taken)."""

    async def stop(self) -> None:
        """Takes no more events; returns when all that were taken are answered."""


class Sink(Protocol):
    """A way out. `address` is shown in status and named in dead letters. It may have more attributes:

    * `in_flight`: the `max_in_flight` that serves it best, where it gathers many events in one request. It holds where
      the config sets none.
    * `most_in_flight`: it can't have more attempts than this under way.
    * `replies`: True where its far side may answer with events, and they are wanted.
    * `longest_s`: the time limit of its client in seconds, where that is not the one of `send`. An attempt of which a
      sink says nothing for 30 s beyond its limit, and up to twice that, is ended as failed."""

    address: str

    async def start(self, tasks: TaskGroup) -> None:
        """Makes ready to send. It does not fail because the far side is away."""

    async def stop(self) -> None:
        """Sends nothing more and frees what it holds."""

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        """One attempt. `done` follows: delivered when the far side has the event, else why not. Within `timeout_s`
        seconds at the latest. Sinks whose client is a coroutine derive from `AsyncSink` instead."""


@runtime_checkable
class ReadingSink(Protocol):
    """A sink that reads the channel by itself instead of being sent to (Spark): the trigger's filter and position go
    with the `ReaderFeed`, and delivery, retries and order are its own."""

    address: str

    async def start_reading(self, feed: ReaderFeed, tasks: TaskGroup) -> None:
        """Begins to read. Returns soon; what it starts lives in `tasks` and is restarted by itself."""

    async def stop(self) -> None: ...

    def state(self) -> dict[str, Any]:
        """For status: `state` ("starting", "running", "stalled", "restarting", "stopped"; "submitted" where others run
        it), `error` or None, `lag` in events or None, and whatever else helps."""


@runtime_checkable
class DeadLetterStore(Protocol):
    """A dead-letter sink that can be read again; `tidegate dlq` works with every one."""

    def entries(self) -> Iterator[tuple[str, Event]]:
        """All letters, oldest first: (id within the store, event with the facts as attributes)."""

    def remove(self, ids: Sequence[str]) -> int:
        """Takes letters out (after a replay); returns how many there were. Crash-safe: all or none."""


class Codec(Protocol):
    """Reads events from messages and writes them into messages, for the binding it was built for."""

    def decode(self, message: Message) -> list[Event]:
        """All events of a message (a batch has many). Raises `Refused` with the attribute and rule at fault."""

    def encode(self, event: Event) -> Message:
        """One event as a message in the codec's content mode."""


KeyMapper = Callable[[Event], bytes | None]
"""The record key for an event; None for no key. It never changes the event (Kafka binding section 3.1)."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition of a filter, and what one event made of it: `text` as in the config, whether it `matched`, what was
    `found` in the event ("size is 'small'"), and the conditions that it is made of."""

    text: str
    matched: bool
    found: str = ""
    parts: tuple[Clause, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """A compiled filter.

    `matches` decides. `exact` and `prefix` are conditions that every matching event fulfils, (attribute, value) pairs:
    the router indexes by them. `alternatives`, where not empty, are filters of which at least one must match (for
    `any`): the filter is indexed under each of them. A filter with none of these is asked for every event. `explain`
    says why an event matches or not; it is asked by people only, so it may be slow. Its `matched` is what `matches`
    says.
    """

    matches: Callable[[Event], bool]
    exact: tuple[tuple[str, str], ...] = ()
    prefix: tuple[tuple[str, str], ...] = ()
    alternatives: tuple[Filter, ...] = field(default=())
    explain: Callable[[Event], Clause] | None = None


class Feed(Protocol):
    """One subscription's place in a channel."""

    def ack(self, position: int) -> None:
        """The event at this position is dealt with. Any order; durable soon after (at least once)."""

    def resume(self) -> None:
        """There is room again, after `Receiver.offer` said False."""

    def lag(self) -> int:
        """Events in the channel that the subscription has not dealt with (those its filter drops may count)."""


class ReaderFeed(Protocol):
    """The place in a channel of a sink that reads it by itself."""

    name: str
    location: str  # what the reader needs to open the channel (the log: its folder)
    options: Mapping[str, Any]  # what else it needs; JSON values ("kind": "log")
    start: Mapping[str, int]  # shard or partition -> the first position to read

    def advance(self, offsets: Mapping[str, int]) -> None:
        """All before these positions (shard or partition -> next to read) is dealt with; retention may pass it."""

    def ends(self) -> Mapping[str, int]:
        """Shard or partition -> the position that the next event will get."""


class Receiver(Protocol):
    """A subscription, as a channel sees it."""

    def offer(self, event: Event) -> bool:
        """Takes an event; `Feed.ack` follows. False when there is no room: the channel keeps it and waits for
        `Feed.resume`."""

    def reject(self, event: Event, outcome: Outcome) -> None:
        """Takes what is no event, wrapped into one, from a channel that others write to as well; it is acknowledged
        like an offered event."""

    def withdraw(self, partition: int) -> Sequence[int]:
        """A channel that shares its partitions with other gateways gives this one to another: events that nothing is
        being done about are dropped, unacknowledged. Returns their positions."""


class Channel(Protocol):
    """Where a broker keeps its events between ingress and delivery.

    Order of calls: `start`, `attach` for every subscription, `open`, then `append`; at the end `stop`.
    """

    appended: int  # events brought into stable storage since the start, by this process

    async def start(self, tasks: TaskGroup) -> None:
        """Opens the storage. Raises `StartError` (folder in use, not writable)."""

    def attach(self, name: str, filter: Filter, receiver: Receiver, *, from_start: bool = False) -> Feed:
        """Adds a subscription. Each matching event is offered to the `receiver`, in order, from where the subscription
        was. A new one begins at the channel's end, or its beginning with `from_start`."""

    def attach_reader(self, name: str, filter: Filter, *, from_start: bool = False) -> ReaderFeed:
        """Adds a sink that reads the channel by itself; the filter only serves to tell which events nobody wants."""

    def detach(self, name: str) -> None:
        """Ends a subscription; its place is kept in case it comes back."""

    async def open(self) -> None:
        """All known subscriptions are attached: their places are durable, feeding begins."""

    def append(self, events: Sequence[Event], done: Accepted) -> None:
        """Brings events into stable storage; see `Intake.accept`."""

    async def stop(self) -> None:
        """Finishes appends, makes all places durable, closes."""

    def info(self) -> dict[str, Any]:
        """For status: `writable` (bool), `events`, `bytes`, `first`, `next`, `unrouted` (events that no subscription
        wanted, since the start), `failed` (events that could not be stored) and whatever else helps."""


class Observer:
    """Told of what happens to events. Derive and override; everything here does nothing. Calls are on the hot path of
    those who configure an observer, and must be quick and not raise. One that traces has a `tracer`; a gateway uses the
    first."""

    tracer: Tracer | None = None

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        """Events are in stable storage."""

    def refused(self, broker: str, error: Refused) -> None:
        """An input was refused."""

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        """An attempt to deliver ended."""

    def dead_lettered(self, trigger: str, event: Event) -> None:
        """An event is in the dead letter; it carries the facts as attributes."""

    async def start(self, tasks: TaskGroup) -> None: ...

    async def stop(self) -> None: ...
