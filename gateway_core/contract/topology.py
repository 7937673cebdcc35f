"""The parts of a running gateway, as services see them: brokers, triggers, bridges, and how each delivers.

The core's own objects fulfil these protocols; nothing is copied. A `Topology` never changes: a reload replaces it by
another one. Do not keep its parts for longer than a question takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from .capabilities import GivenUp
from .component import SourceRef
from .interfaces import Accepted, Channel, Feed, Filter, Observer, Outcome, ReaderFeed, ReadingSink, Sink, Source

if TYPE_CHECKING:
    from collections.abc import Hashable

    from .config_model import DeliveryConfig, TriggerConfig
    from .event import Event

Section = Literal["brokers", "triggers", "bridges"]
"""The sections of a config whose entries run."""
Redelivered = Callable[[Literal["delivered", "given_up", "unwanted", "ended"], Outcome | None], None]
"""Called once an event that is delivered again is settled: the subscriber has it, or it does not take it, or the
trigger's filter rejects it; the outcome says why not. `ended`: it was not settled, because the trigger stopped or was
told to end it."""
ObserversOf = Callable[[Section, str], Sequence[Observer]]
"""The observers that a service wants at an entry: (section, name)."""


class SourceView(Protocol):
    """A source and its component in the config."""

    @property
    def ref(self) -> SourceRef:
        """The component as the config names it."""

    @property
    def source(self) -> Source: ...


class FailedAttempt(Protocol):
    """One attempt that failed: when (Unix time), of which event, its number and the answer."""

    @property
    def at_ns(self) -> int: ...
    @property
    def id(self) -> str | None: ...
    @property
    def source(self) -> str | None: ...
    @property
    def position(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def code(self) -> int | None: ...
    @property
    def reason(self) -> str: ...


class FailuresView(Protocol):
    """What is remembered of failed attempts and of events that were given up: the newest few hundred."""

    @property
    def last(self) -> str | None:
        """Why the last attempt failed."""

    @property
    def newest(self) -> Iterable[FailedAttempt]:
        """The newest failures of all events, oldest first."""

    @property
    def complete(self) -> bool:
        """Whether every event that was given up since the start is still remembered."""

    def of(self, id: str, source: str | None) -> Iterator[FailedAttempt]:
        """The newest failures of an event, oldest first."""

    def given_up(self, id: str, source: str | None, position: int) -> GivenUp | None:
        """What is remembered about an event that was given up; position 0 means any."""

    def all_given_up(self) -> Iterator[tuple[str | None, str | None, int, GivenUp]]:
        """The events that were given up, oldest first: id, source, position, facts."""


@dataclass(frozen=True, slots=True)
class Held:
    """An event that a trigger or bridge has taken and not settled, without an attempt in flight.

    `state` is `due`, `waiting` (for a retry, at `due_ns`), `behind` (another one with its order key) or `letter` (being
    written to the dead letter). It is retried until `until_ns` (None: its time has no limit), and `retries_left` times
    (None: no limit). Times are Unix times.
    """

    state: str
    attempts: int
    due_ns: int
    until_ns: int | None
    retries_left: int | None


class DeliveryView(Protocol):
    """How a trigger or bridge delivers to its sink, and the events that it has at the moment."""

    @property
    def name(self) -> str: ...
    @property
    def sink(self) -> Sink: ...
    @property
    def policy(self) -> DeliveryConfig:
        """The retries, limits and order that apply, with all defaults filled in."""

    @property
    def order_key_of(self) -> Callable[[Event], Hashable] | None:
        """Which events wait for each other; None if none do. Raises `Refused` for an event without a key."""

    @property
    def feed(self) -> Feed: ...
    @property
    def failures(self) -> FailuresView: ...
    @property
    def paused(self) -> bool: ...
    @property
    def holding(self) -> bool:
        """Whether its events are held because the subscriber gives no answer (`hold_while_down`)."""

    @property
    def blocked(self) -> bool:
        """True while the dead letter can't be written: no attempt starts until it can."""

    @property
    def in_flight(self) -> int:
        """Attempts under way."""

    def find_held(self, id: str, source: str | None, position: int) -> Held | None:
        """The event at this position, or if that is 0, the one with this id (and source)."""

    def again(self, event: Event, done: Redelivered, letter: GivenUp | None = None, by: str = "") -> bool:
        """Delivers an event again to this subscriber only, in order with what the channel offers. It does not move the
        trigger's place in the channel. False if there is no room, or no attempt may start. `by` is the replay's id.

        A past event of the channel has the trigger's retries, limits and dead letter. One of a dead letter, which
        `letter` is about, gets few attempts, and is no new dead letter if it fails again."""

    def end_again(self, *, letters: bool = False) -> None:
        """Ends those that have no attempt under way: the past events, or those of dead letters."""

    def withdraw(self, partition: int) -> Sequence[int]:
        """See `Receiver.withdraw`."""


class BrokerView(Protocol):
    """A broker."""

    @property
    def name(self) -> str: ...
    @property
    def channel_name(self) -> str:
        """The kind of its channel."""

    @property
    def channel(self) -> Channel: ...
    @property
    def bound_sources(self) -> Sequence[SourceView]: ...
    @property
    def dead_letter(self) -> Sink: ...
    def publish(self, events: Sequence[Event], done: Accepted) -> None:
        """Stores events that come from no source; see `Intake.accept`. Admissions are not checked."""


class TriggerView(Protocol):
    """A trigger. If its subscriber reads the channel itself (`reads`), it has no `delivery` and no dead letter."""

    @property
    def name(self) -> str: ...
    @property
    def broker(self) -> BrokerView: ...
    @property
    def filter(self) -> Filter: ...
    @property
    def sink(self) -> Sink | ReadingSink: ...
    @property
    def dead_letter(self) -> Sink | None: ...
    @property
    def delivery(self) -> DeliveryView | None: ...
    @property
    def due_of(self) -> Callable[[Event, int], int] | None:
        """When an event is due, given when it was received (Unix time in nanoseconds; it returns one, too). It raises
        `ValueError` if that can't be told. None: all events are due at once."""

    @property
    def feed(self) -> Feed | ReaderFeed | None: ...
    @property
    def reads(self) -> bool: ...


class BridgeView(Protocol):
    """A bridge. Without a filter it wants all events; without a dead letter its source keeps what is not delivered."""

    @property
    def name(self) -> str: ...
    @property
    def bound_source(self) -> SourceView: ...
    @property
    def filter(self) -> Filter | None: ...
    @property
    def dead_letter(self) -> Sink | None: ...
    @property
    def delivery(self) -> DeliveryView: ...


class Topology(Protocol):
    """Everything that a gateway runs, by name. It never changes."""

    @property
    def brokers(self) -> Mapping[str, BrokerView]: ...
    @property
    def triggers(self) -> Mapping[str, TriggerView]: ...
    @property
    def orphans(self) -> Mapping[str, TriggerConfig]:
        """Triggers whose broker does not exist (yet)."""

    @property
    def bridges(self) -> Mapping[str, BridgeView]: ...
