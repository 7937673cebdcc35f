"""What a component may offer beyond the interface of its kind (`gateway_core.contract.interfaces`).

A component offers a capability by having its attributes; it needs no base class. The gateway looks when it builds the
component, never for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeGuard, TypeVar, runtime_checkable

from anyio.abc import TaskGroup

from .event import Event, Message
from .interfaces import Accepted, Intake, Source
from .outcome import Outcome

if TYPE_CHECKING:
    from .deduplicate_config import DeduplicateConfig


@runtime_checkable
class Measured(Protocol):
    """A source, sink or channel with metrics of its own (`Component.metrics`)."""

    def metrics(self) -> Mapping[str, float | Mapping[str, float]]:
        """The current numbers by metric; of one with a label, by its values: few, and never something of an event."""


@runtime_checkable
class Watched(Protocol):
    """A source that reports its state."""

    def info(self) -> dict[str, Any]:
        """For status: `address`, `error` (None while all is well), `lag` in events, and whatever else helps."""


@runtime_checkable
class Pulling(Protocol):
    """A source that fetches its events, or the config model of one. If `pulls` is True, no sender waits for its answer
    and it can keep events that are not accepted, so a bridge from it retries for as long as necessary."""

    pulls: bool


@runtime_checkable
class Sharing(Protocol):
    """A source that declares whether it may run in every worker of a gateway, each with a share of the events (a
    consumer group), or in one worker only. Others run in every worker, unless they are `Pulling`."""

    shares: bool


@runtime_checkable
class TakingOver(Protocol):
    """A source that can take over the address of another one of its kind, so that no sender finds it closed."""

    async def take_over(self, old: Source, intake: Intake, tasks: TaskGroup) -> bool:
        """Starts in place of `old`, and stops `old`. Returns False if it can't."""


@runtime_checkable
class Reading(Protocol):
    """A source that can decode a message before it has started."""

    def read(self, message: Message) -> list[Event]:
        """The events of a message. Raises `Refused` as at the real ingress."""


@runtime_checkable
class Listening(Protocol):
    """The config model of a source that listens at `HOST:PORT`."""

    listen: str


@runtime_checkable
class Receiving(Protocol):
    """The config model of a source that senders reach by a URL. Loading a config uses it to find circles of events."""

    def receives(self, url: str) -> bool:
        """Whether an event that is sent to this URL comes in here, as far as the config can tell."""


@runtime_checkable
class Addressed(Protocol):
    """The config model of a sink that sends to a URL."""

    url: Any


@runtime_checkable
class Connecting(Protocol):
    """The config model of a component that can try its remote side for `tidegate check --connect`. `end` names it."""

    @property
    def end(self) -> str: ...

    def connect(self, limit_s: float) -> None:
        """Returns if the remote side answers and accepts the login. Raises `OSError` with the reason."""


@runtime_checkable
class Foretelling(Protocol):
    """The config model of a component that knows what it will do, for `tidegate check`."""

    def outlook(self, now_s: float) -> Iterable[str]:
        """Lines for people: what it will do after this time (Unix seconds)."""


@runtime_checkable
class HasPath(Protocol):
    """The config model of a source that listens for requests to a path, or of a sink that writes to a file."""

    path: Any


def pulls(source: object) -> bool:
    """Whether a source (or its config) is `Pulling`, and says so."""
    return isinstance(source, Pulling) and source.pulls


def runs_alone(source: object) -> bool:
    """Whether a source runs in one worker of a gateway only."""
    return not source.shares if isinstance(source, Sharing) else pulls(source)


@runtime_checkable
class Gathering(Protocol):
    """A sink that gathers many events in one request. `in_flight` is the `max_in_flight` that suits it best, None for
    the default. It applies if the config sets none."""

    in_flight: int | None


@runtime_checkable
class LimitingInFlight(Protocol):
    """A sink that can't have more than `most_in_flight` attempts under way; None for no limit."""

    most_in_flight: int | None


@runtime_checkable
class Replying(Protocol):
    """A sink whose remote side may answer with events. `replies` is True if they are wanted."""

    replies: bool


@runtime_checkable
class TimingOut(Protocol):
    """A sink whose client has a time limit of its own. An attempt without an outcome has failed 30 to 60 s after it."""

    longest_s: float


@runtime_checkable
class Fetched(Protocol):
    """A sink whose subscribers come by themselves: its attempts wait for them."""

    def release(self) -> None:
        """Ends the attempts that no subscriber has, by an `Outcome` that is `local`: no more start before a stop."""


BeginBatch = Callable[[Sequence[Event]], tuple[str | None, Callable[[Outcome], None]]]
"""Called with the events of a message, see `Tracer.sending_batch`."""


@runtime_checkable
class BatchTracing(Protocol):
    """A sink that sends several events in one message, and can send a trace context with it."""

    def trace_batches(self, begin: BeginBatch) -> None:
        """From now on each message is traced. Called before `start`, and only if the gateway traces."""


@runtime_checkable
class Previewing(Protocol):
    """A sink or channel that can show what it would send, for `tidegate explain` and `tidegate test`. It works before
    `start`, and contacts nothing outside the process."""

    def preview(self, event: Event) -> Message:
        """What one attempt would send: `url` is the destination (of a record: `kafka://HOST:PORT/TOPIC`), `key` the
        record key. Headers that hold a secret are `****`. Raises `Refused` if the event can't be written."""


@runtime_checkable
class ClassifiesResponses(Protocol):
    """A sink whose subscriber answers with a status, and that can tell what a response means."""

    def classify(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Outcome:
        """The outcome of an attempt that gets this response. Header names are lower-case."""


@runtime_checkable
class DeadLetterStore(Protocol):
    """A dead-letter sink that can be read; `tidegate dlq` works with all of them."""

    def entries(self) -> Iterator[tuple[str, Event]]:
        """All dead letters, oldest first: (id within the store, event with the facts as attributes)."""

    def remove(self, ids: Sequence[str]) -> int:
        """Removes dead letters (after a replay); returns how many there were. Crash-safe: all or none."""


@dataclass(frozen=True, slots=True)
class Found:
    """One step of a search: the events found, newest first, and how many were searched. `rest` says where the next step
    continues (JSON that `find` understands); None at the end."""

    events: Sequence[Event]
    searched: int
    rest: Any = None


@runtime_checkable
class Searchable(Protocol):
    """A channel that can find past events."""

    async def find(self, id: str, source: str | None, rest: Any = None, within_s: float = 0.5) -> Found:
        """Searches for events with this id (and source) for about `within_s`. `rest` comes from the step before."""


DeliveryState = Literal["before", "unread", "delayed", "pending", "passed", "settled"]
"""How far a subscription is with an event: it began after the event (`before`, if that is known), has not read it yet,
waits until it is due, was offered it and has not settled it, or is past it (`passed`): it settled the event, or the
filter at that time dropped it. `settled` is `passed` of a channel that keeps no list of what was given up, and shares
its events among gateways: another gateway, or an earlier run of this one, may have delivered it, or given it up."""


@runtime_checkable
class TracksDeliveries(Protocol):
    """A feed that knows the delivery state of single events."""

    def delivery_state(self, position: int) -> DeliveryState | None:
        """None if another worker knows, or the channel does not have the event."""


@dataclass(frozen=True, slots=True)
class NotDue:
    """An event that waits, and when it is due (Unix time in nanoseconds)."""

    due_ns: int
    event: Event


@runtime_checkable
class DelayingChannel(Protocol):
    """A channel that keeps events until they are due."""

    def delay(self, name: str, due_of: Callable[[Event, int], int] | None) -> None:
        """Called before `attach`: when the subscription of this name gets an event, given the event and when it was
        received (Unix time in nanoseconds; it returns one, too). It raises `ValueError` if that can't be told, and the
        event is rejected. None: at once; what waits from earlier keeps its time."""


@runtime_checkable
class Delaying(Protocol):
    """A feed of which events wait until they are due. Only people call the methods: they may block for a moment. They
    raise `StorageError`."""

    @property
    def delayed(self) -> int:
        """How many wait."""

    def oldest_due_ns(self) -> int | None:
        """When the first of those that wait, or are being delivered after they waited, is or was due (Unix time in
        nanoseconds); None if there is none, or it is not known yet. Those that `deliver_now` made due do not count. It
        does not block."""

    def late_s(self) -> float:
        """By how many seconds that one is late; 0 if it is not due yet. It does not block."""

    def due_ns(self, position: int) -> int | None:
        """When the event at a position is due (Unix time in nanoseconds), 0 if `deliver_now` made it due; None if it
        does not wait."""

    def not_due(self, after: tuple[int, int] | None, count: int) -> Sequence[NotDue]:
        """Some of them, those that are due first; after this time and position."""

    def due_within(self, seconds: Sequence[float]) -> Sequence[int]:
        """How many are due within these times from now."""

    def cancel(self, id: str, source: str) -> int:
        """Removes those with this id and source without delivering them, durably; returns how many there were."""

    def deliver_now(self, id: str, source: str) -> int:
        """Makes those with this id and source due now; returns how many there were."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An event that a subscription gave up: when (Unix time), after how many attempts, the last status and reason. `to`
    is the address of the dead letter that has it, "" if it went back to its sender. `delivered_ns` is the time at which
    a replay or a rewind delivered it to the subscriber after all, 0 if none has, and `delivered_by` the id of that
    replay, `rewind`, or "" if that is not known."""

    at_ns: int
    to: str
    reason: str
    attempts: int = 0
    code: int | None = None
    delivered_ns: int = 0
    delivered_by: str = ""


@dataclass(frozen=True, slots=True)
class GivenUpCount:
    """How many events a subscription gave up to one dead letter, and the facts of the last of them."""

    name: str
    to: str
    count: int
    last: GivenUp


@runtime_checkable
class KeepsGivenUp(Protocol):
    """A feed that keeps which events were given up, as long as its channel has them."""

    def give_up(self, position: int, given_up: GivenUp) -> None:
        """The dead letter has this event; `ack` follows, and what is kept is durable with it. Nothing happens if the
        channel does not have this position, or another worker writes there."""

    def delivered_again(self, position: int, at_ns: int, letter: GivenUp | None = None, by: str = "") -> None:
        """The subscriber has this event, which it was sent again (Unix time) by this replay. If it was given up before,
        what is kept of that says so a little later, whichever worker writes there; if nothing is kept, `letter` is."""


@runtime_checkable
class TellsGivenUp(Protocol):
    """A channel that knows which events were given up, also by gateways before this one."""

    async def given_up(self, position: int) -> Mapping[str, GivenUp]:
        """Who gave up the event at this position: the facts by subscription."""

    def given_up_counts(self) -> Sequence[GivenUpCount]:
        """How many of its events were given up, by subscription and dead letter. It may block: call it in a thread. It
        works before `start`, too."""


@runtime_checkable
class FindsGivenUp(Protocol):
    """A channel that finds events that were given up by what their dead letters still tell."""

    def given_up_by(self, name: str, wanted: Container[tuple[str, str]]) -> Mapping[tuple[str, str], Sequence[int]]:
        """The positions of the events that this subscription gave up and no replay has delivered, oldest first, by
        source and id; of those that are among `wanted`. It may block: call it in a thread. Raises `StorageError`."""


@runtime_checkable
class TellsRedelivered(Protocol):
    """A channel that knows which of the events that were given up were delivered after all."""

    def redelivered(self) -> Mapping[tuple[str, int], GivenUp]:
        """These events by subscription and position, as long as the channel has them. It may block: call it in a
        thread. It works before `start`, too. Raises `StorageError`."""


@runtime_checkable
class Joined(Protocol):
    """A channel in which a subscription attached while the channel is open gets its cursor a moment later."""

    async def joined(self, name: str) -> None:
        """Returns once it has one, or after as long as a reload may take. It misses no event appended after that."""


@runtime_checkable
class Retains(Protocol):
    """A channel that deletes old events itself."""

    def hold(self, wanted: Container[str] | None) -> None:
        """None: a reload begins to replace subscriptions, and nothing may be deleted. Else it has ended, and `wanted`
        are all names of the config: what one of these still needs is kept, even if it could not be attached again."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A duplicate that was not stored: when it came (Unix time), the position of the first, and whether the content
    `differs`."""

    at_ns: int
    first: int
    differs: bool


@runtime_checkable
class TellsHeaders(Protocol):
    """A source of requests that can tell their headers, as a part of the key of `deduplicate`."""

    def tell_headers(self, names: Sequence[bytes]) -> None:
        """Called before `start`, at most once, with names in lower case. Each event of a request gets their values in
        `Event.key_headers`; those of several in one request get their place in it as one more value."""


@runtime_checkable
class Deduplicates(Protocol):
    """A channel that can store events with the same key once."""

    def deduplicate(self, config: DeduplicateConfig) -> None:
        """Called before `start`, if the config wants it: of accepted events with one key within the window, exactly one
        is stored, whatever fails. The others are accepted as well, and marked (`Event.duplicate`), once the first is in
        stable storage. Raises `StartError` if it can't do that with this config, or with several workers."""

    def append_again(self, events: Sequence[Event], done: Accepted) -> None:
        """`Channel.append` for events that are replayed: they are stored, whether it has them or not."""

    def repeated(self, id: str, source: str | None) -> Sequence[Repeated]:
        """The duplicates with this id (and source) among the newest of this process, oldest first."""


@runtime_checkable
class KnowsKeys(Protocol):
    """A channel that can tell whether an event would be a duplicate (`Deduplicates`)."""

    async def first_of(self, event: Event) -> Repeated | None:
        """The first with the key of this event, if the event came now; None if it would be stored. Changes nothing. It
        is not known to differ from one that is no longer there. Raises `StorageError`."""


@runtime_checkable
class Faulty(Protocol):
    """A subscription's feed, or a sink, that can report why it delivers nothing, before an attempt has failed."""

    @property
    def fault(self) -> str | None:
        """What is wrong and what to do; None while all is well."""


@runtime_checkable
class StartsLate(Protocol):
    """A subscription's feed that knows whether events since its `start` were gone when it began."""

    @property
    def started_late(self) -> str | None:
        """What is missing, with the times; None if nothing is, or if that is not known."""


_Capability = TypeVar("_Capability")


def offers(component: object, capability: Callable[..., _Capability]) -> TypeGuard[_Capability]:
    """Whether a component has a capability, which is one of these protocols. It answers as `isinstance` does, ten times
    as fast before Python 3.12: for what is asked about each of thousands of components."""
    # `Callable` because a type checker takes no protocol for `type[…]`
    return all(hasattr(component, name) for name in _attributes(capability))


@cache
def _attributes(capability: Any) -> tuple[str, ...]:
    """The public attributes that make up a capability."""
    classes = [c for c in capability.__mro__ if c.__module__ != "typing" and c is not object]
    found = [name for c in classes for name in [*vars(c).get("__annotations__", ()), *vars(c)]]
    return tuple(dict.fromkeys(name for name in found if not name.startswith("_")))


def lend(wrapper: object, inner: object, capabilities: Iterable[type]) -> None:
    """Gives a wrapper those capabilities that the wrapped component has, where `isinstance` looks for them."""
    for capability in capabilities:
        if isinstance(inner, capability):
            for name in _attributes(capability):
                setattr(wrapper, name, getattr(inner, name))
