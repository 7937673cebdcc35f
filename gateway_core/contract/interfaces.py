"""What each kind of component must be able to do. The core talks to plugins only through these protocols.

Optional capabilities are in `gateway_core.contract.capabilities`. Two rules apply everywhere:

* A `done` callback is called exactly once, on the event loop's thread, and must not raise.
* `start` returns when the component works; `stop` takes no new work, finishes what it began, and may be cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from anyio.abc import TaskGroup

from .admission import Admission as Admission
from .async_sink import AsyncSink as AsyncSink
from .errors import Refused
from .event import Event, Message
from .outcome import DELIVERED as DELIVERED
from .outcome import Outcome as Outcome
from .start_position import LATEST, StartPosition
from .tracing import Tracer

Accepted = Callable[[BaseException | None], None]
"""Called with None once the events are safe, else with the error (`NotDelivered` if sending again won't help)."""


Send = Callable[[Event, float, Callable[[Outcome], None]], None]
"""`Sink.send`."""


class Intake(Protocol):
    """Where a source delivers its events. The core provides it."""

    stores: bool
    """True if `accept` brings events into storage, many as quickly as one. False if it follows each event to its
    destination: a source that reads many at once hands them over one by one, to know of each when it is there."""

    deduplicates: bool
    """Whether events may be found to be stored already, one by one: then their `duplicate` is True once `done(None)` is
    called."""

    admissions: Sequence[Admission]
    """What may refuse events that the source itself lets in, or say that they are here already; nothing for most. A
    reload may replace it."""

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        """Hands over events that arrived together. `done(None)` follows when all are in stable storage (a broker's
        channel) or at their destination (a bridge), now or already before (`AlreadyStored`); only then may the source
        acknowledge them. All or none."""

    def refuse(self, error: Refused) -> None:
        """Counts an input that can't be accepted. The source itself answers its sender."""

    def attempted(self, event: Event, outcome: Outcome, seconds: float) -> None:
        """Reports an attempt that the source made itself, because its sender waits for the answer."""

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        """Writes an event that the source could not deliver to `dest` itself to the dead letter, with the facts; or
        the event made from an input that is not one (`Stage.DECODE`). `done(None)` follows when it is safe there, an
        error if there is no dead letter."""

    def withdraw(self, partition: int) -> Sequence[int]:
        """The events of this partition (the upper bits of their positions) are someone else's now: those that nothing
        is being done about are dropped, without `done`. Returns their positions."""


class Source(Protocol):
    """Brings events in. `address`, known after `start`, is what a sender needs. It may be `Pulling`, `Sharing`, …"""

    address: str

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Starts to accept events. Raises `StartError` if it can't (port taken)."""

    async def stop(self) -> None:
        """Accepts no more events; returns when all accepted ones are answered."""


class Sink(Protocol):
    """Sends events out. `address` is shown in status and named in dead letters. It may be `Gathering`,
    `LimitingInFlight`, `Replying`, `TimingOut`, `Previewing`, `BatchTracing` and `ClassifiesResponses`."""

    address: str

    async def start(self, tasks: TaskGroup) -> None:
        """Starts. It does not fail if the remote side is down."""

    async def stop(self) -> None:
        """Stops sending and releases all resources."""

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        """One attempt. `done` follows: delivered when the remote side has the event, else why not. Within `timeout_s`
        seconds at the latest. Sinks whose client is a coroutine derive from `AsyncSink` instead."""


@runtime_checkable
class ReadingSink(Protocol):
    """A sink that reads the channel itself, with the `ReaderFeed`: it takes care of delivery, retries and order."""

    address: str

    async def start_reading(self, feed: ReaderFeed, tasks: TaskGroup) -> None:
        """Starts to read. Returns soon; what it starts lives in `tasks`, and it restarts that itself."""

    async def stop(self) -> None: ...

    def state(self) -> dict[str, Any]:
        """For status: `state` ("starting", "running", "stalled", "restarting", "stopped"; "submitted" where others run
        it), `error` or None, `lag` in events or None, and whatever else helps."""


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
    """A condition of a filter, and its result for one event: `text` as in the config, whether it `matched`, what was
    `found` in the event ("size is 'small'"), and the conditions that it is made of. `data` is True if it is about the
    event's data, which not everybody may see."""

    text: str
    matched: bool
    found: str = ""
    parts: tuple[Clause, ...] = ()
    data: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """A compiled filter.

    `matches` decides. `exact` and `prefix` are conditions that every matching event fulfils, (attribute, value) pairs:
    the router indexes by them. `alternatives`, where not empty, are filters of which at least one must match (for
    `any`): the filter is indexed under each of them. A filter with none of these runs on every event. `explain` says
    why an event matches or not; only people call it, so it may be slow. Its `matched` is what `matches` says.
    """

    matches: Callable[[Event], bool]
    exact: tuple[tuple[str, str], ...] = ()
    prefix: tuple[tuple[str, str], ...] = ()
    alternatives: tuple[Filter, ...] = field(default=())
    explain: Callable[[Event], Clause] | None = None


class Feed(Protocol):
    """One subscription's connection to a channel."""

    def ack(self, position: int) -> None:
        """The event at this position is settled. Any order; durable soon after (at least once)."""

    def resume(self) -> None:
        """The receiver has room again, after `Receiver.offer` returned False."""

    def lag(self) -> int | None:
        """Events in the channel that the subscription has not settled (events that its filter drops may count). None
        if that is not known now."""


class ReaderFeed(Protocol):
    """The connection to a channel of a sink that reads it itself."""

    name: str
    location: str  # what the reader needs to open the channel (the log: its folder)
    options: Mapping[str, Any]  # what else it needs; JSON values ("kind": "log"). "start" (`StartPosition.json`) and
    # "firsts", the first positions that there are: where a sink that has nothing yet begins, wherever `start` is.
    # "began", if it is known: where a sink of this name first did
    start: Mapping[str, int]  # shard or partition -> the first position to read

    def advance(self, offsets: Mapping[str, int]) -> None:
        """Everything before these positions (by shard or partition) is settled; retention may remove it, and keeps
        what follows. A sink that has lost what it had may go back."""

    def ends(self) -> Mapping[str, int]:
        """Shard or partition -> the position that the next event will get."""


class Receiver(Protocol):
    """A subscription, as a channel sees it."""

    def offer(self, event: Event) -> bool:
        """Takes an event; `Feed.ack` follows. False if there is no room: the channel waits for `Feed.resume`."""

    def reject(self, event: Event, outcome: Outcome) -> None:
        """Takes a record that is not an event, wrapped into one, from a channel that others also write to
        (`Stage.DECODE`); it is acknowledged like an offered event."""

    def withdraw(self, partition: int) -> Sequence[int]:
        """A channel that shares its partitions with other gateways passes this one to another: events without an
        attempt under way are dropped, unacknowledged. Returns their positions."""


class Channel(Protocol):
    """Where a broker keeps its events between ingress and delivery.

    Order of calls: `start`, `attach` for every subscription, `open`, then `append`; at the end `stop`.
    """

    appended: int  # events written to stable storage by this process since its start

    async def start(self, tasks: TaskGroup) -> None:
        """Opens the storage. Raises `StartError` (folder in use, not writable)."""

    def attach(self, name: str, filter: Filter, receiver: Receiver, *, start: StartPosition = LATEST) -> Feed:
        """Adds a subscription. Each matching event is offered to the `receiver`, in order, from where the subscription
        was. A new one begins at `start`. Raises `StartError`, with a remedy, for a kind of start that the channel
        does not have; every channel has `EARLIEST` and `LATEST`."""

    def attach_reader(self, name: str, filter: Filter, *, start: StartPosition = LATEST) -> ReaderFeed:
        """Adds a sink that reads the channel itself; the filter only serves to find events that nobody wants. `start`
        is as for `attach`."""

    def detach(self, name: str) -> None:
        """Ends a subscription; its cursor is kept in case it comes back."""

    async def open(self) -> None:
        """Called once all known subscriptions are attached: makes their cursors durable and starts feeding them."""

    def append(self, events: Sequence[Event], done: Accepted) -> None:
        """Writes events to stable storage; see `Intake.accept`."""

    async def stop(self) -> None:
        """Finishes appends, makes all cursors durable, closes."""

    def info(self) -> dict[str, Any]:
        """For status: `writable` (bool), `events`, `bytes`, `first`, `next`, `unrouted` (events that no subscription
        wanted, since the start), `failed` (events that could not be stored) and whatever else helps."""


class Observer:
    """Gets called for what happens to events. Derive and override; everything here does nothing. If configured, it is
    on the hot path: calls must be quick and not raise. One that traces has a `tracer`; a gateway uses the first."""

    tracer: Tracer | None = None

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        """Events are in stable storage."""

    def refused(self, broker: str, error: Refused) -> None:
        """An input was refused."""

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        """An attempt to deliver ended."""

    def dead_lettered(self, trigger: str, event: Event) -> None:
        """An event is in the dead letter. Its attributes include the facts."""

    async def start(self, tasks: TaskGroup) -> None: ...

    async def stop(self) -> None: ...
