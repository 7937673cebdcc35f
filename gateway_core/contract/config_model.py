"""The config's vocabulary: brokers, triggers and bridges. One model a section; what each key means stands beside it,
and the reference page and the editor schema are made from that."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from .attribute_names import AttributeName, old_names
from .capabilities import pulls
from .component import (
    ChannelRef,
    Config,
    DeadLetterRef,
    FilterRef,
    KeyMapperRef,
    ObserverRef,
    SinkRef,
    SourceRef,
)
from .config_extension import DocumentOrigin
from .config_node import Place
from .deduplicate_config import DeduplicateConfig
from .durations import YEAR_S, Duration, duration_ns, seconds_of
from .faults import near
from .filter_values import wildcards
from .moments import time_ns_of

_NAME = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
NAME_RULE = "letters, digits, `.`, `_` and `-`, at most 63, with a letter or digit at both ends"
NAME_REMEDY = f"a name is made of {NAME_RULE}"
Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


def is_name(text: str) -> bool:
    """Whether an entry of the gateway's own sections may have this name (`NAME_RULE`)."""
    return re.fullmatch(_NAME, text) is not None


RETRY_FOR_S = 86_400.0
"""How long deliveries are retried by default, in seconds."""


class DeliveryConfig(Config):
    """How events are delivered, and what follows a failure. A trigger's keys win over its broker's, one by one."""

    retry_for: Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)] | None = None
    """For how long a failed delivery is tried again, in seconds since its first failure, before the event goes to the
    dead letter. By default 86400, a day, unless `retry` is set."""
    retry: Annotated[int, Field(ge=0, le=1000)] | None = None
    """How many times a failed delivery is tried again. Alone it decides; with `retry_for`, whichever ends first."""
    hold_while_down: bool = False
    """Whether events are held, instead of going to the dead letter, while the subscriber gives no answer at all
    (refused or broken connections, silence). Such attempts use up no retry and no time, unless the subscriber answers
    others between them."""
    backoff: Literal["exponential", "linear"] = "exponential"
    """How the wait grows. Before retry n = 1, 2, …: exponential `min(max, delay * 2^(n-1))`, linear
    `min(max, delay * n)`; the wait is drawn uniformly from the upper half of that."""
    backoff_delay_s: Seconds = 0.2
    """The first wait, in seconds."""
    backoff_max_s: Seconds = 30.0
    """The longest wait, in seconds. Unless this or `retry` is set, it doubles to 60 after a quarter of an hour, and
    again after half an hour, one hour and two hours, up to 300."""
    timeout_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 30.0
    """How long one attempt may take, in seconds."""
    retry_after_max_s: Seconds = 300.0
    """The longest `Retry-After` that is honoured, in seconds."""
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 64
    """How many attempts may be under way at once."""
    rate_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """How many attempts may start in a second; no limit by default."""
    order: Literal["unordered", "partition", "key"] = "unordered"
    """Which events wait for an earlier one to be settled (delivered, or in the dead letter). `partition`: one event of
    each partition of the channel (a shard of the log) is under way at once. `key`: one event of each key, many keys at
    once; events without a key don't wait."""
    order_key: KeyMapperRef | None = None
    """The key for `order: key`. By default the record key, or the attribute `partitionkey` if there is none."""

    @property
    def most_attempts(self) -> float:
        """How many attempts an event gets at most."""
        return float("inf") if self.retry is None else self.retry + 1

    @property
    def retries_for_s(self) -> float:
        """After how many seconds since the first failed attempt a failed one is the last."""
        if self.retry_for is not None:
            return self.retry_for
        return RETRY_FOR_S if self.retry is None else float("inf")

    @property
    def unmet_wait_s(self) -> float | None:
        """A wait, in seconds, that is longer than `retry_for` lets an event be retried; None if there is none."""
        first = min(self.backoff_delay_s, self.backoff_max_s)
        longest = self.backoff_max_s if "backoff_max_s" in self.model_fields_set else first
        return longest if self.retry_for and self.retry_for < longest else None

    @property
    def slows_down(self) -> bool:
        """Whether the longest wait grows with time."""
        return self.retry is None and "backoff_max_s" not in self.model_fields_set

    def over(self, base: DeliveryConfig) -> DeliveryConfig:
        """The delivery of a trigger, from its own keys and its broker's: those that this one sets win, one by one. When
        to give up is one choice: `retry` or `retry_for` replaces both."""
        own = {name: getattr(self, name) for name in self.model_fields_set}
        if "retry" in own or "retry_for" in own:
            own = {"retry": None, "retry_for": None, **own}
        return base.model_copy(update=own) if own else base


class EntryConfig(Config):
    """An entry that a document of a plugin's kind can describe, too."""

    _origin: DocumentOrigin | None = None

    @property
    def origin(self) -> DocumentOrigin | None:
        """The object in a document that the entry came from; None if only the config's own sections define it."""
        return self._origin

    def came_from(self, origin: DocumentOrigin) -> None:
        """Remembers the origin; the loader calls it."""
        self._origin = origin


class BrokerConfig(EntryConfig):
    """A broker takes events at its ingress, keeps them in its channel and feeds its triggers."""

    ingress: list[SourceRef] = []
    """Its sources."""
    channel: ChannelRef = ChannelRef("log")
    """Where events are kept between ingress and delivery."""
    deduplicate: DeduplicateConfig | None = None
    """Stores events that are sent again once. By default each is stored."""
    delivery: DeliveryConfig = DeliveryConfig()
    """Defaults for its triggers."""
    dead_letter: DeadLetterRef = DeadLetterRef("deadletter")
    """Where undeliverable events go, for triggers without their own. By default a file in the data directory."""

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        if not self.ingress:
            yield (), "the broker has no `ingress`: no event can come in", ""


def _attributes(value: Any) -> Any:
    """Refuses what belongs into `filters`, by the key that takes it."""
    if isinstance(value, list):
        raise ValueError("it compares attributes, and takes no list; move the list to `filters`")
    if isinstance(value, str):
        raise ValueError('it compares attributes, and takes no expression; write `filters: [{cesql: "…"}]`')
    for name, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, dict | list):
            raise ValueError(
                f"it compares attributes with texts, and `{name}` is none; write `filters: [{{{name}: …}}]`"
            )
    return value


def _a_time(text: str) -> str:
    time_ns_of(text)
    return text


def _a_duration(text: str) -> str:
    seconds_of(text)
    return text


class StartSince(Config):
    """Begins at a time, or some time before the trigger is made."""

    time: Annotated[str, AfterValidator(_a_time)] | None = None
    """The first event that was stored at this time or later (RFC 3339, as in `2026-11-28T08:00:00Z`)."""
    ago: Annotated[str, AfterValidator(_a_duration)] | None = None
    """How long before the trigger is made: `90s`, `30m`, `2h`, `7d`."""

    @model_validator(mode="after")
    def _one(self) -> StartSince:
        if (self.time is None) == (self.ago is None):
            raise ValueError("name `time` or `ago`, one of them")
        return self

    def time_ns(self, now_ns: int) -> int:
        """The Unix time in nanoseconds, for a trigger that is made now."""
        if self.time is not None:
            return time_ns_of(self.time)
        return max(0, now_ns - duration_ns(self.ago or "0s"))


class DeliverAtConfig(Config):
    """Where an event says when it is due."""

    attribute: AttributeName
    """An attribute with a time (RFC 3339), or with a duration after the event came, such as `10m` or `PT10M`. An
    event without it has the trigger's `delay`. One that is due more than a year later, or whose attribute is neither,
    goes to the dead letter."""


class TriggerConfig(EntryConfig):
    """A trigger sends those of its broker's events that match its filter to one subscriber."""

    broker: str = "default"
    """The broker it belongs to."""
    filter: Annotated[dict[AttributeName, str], BeforeValidator(_attributes)] = {}
    """Attributes and their values: all must be equal. An empty value asks only that the attribute is there."""
    filters: list[FilterRef] = []
    """Filters that must all match (CloudEvents Subscriptions API). With any, `filter` is not asked (Knative's rule)."""
    subscriber: SinkRef
    """Where matching events go."""
    delivery: DeliveryConfig = DeliveryConfig()
    """What differs from the broker's delivery."""
    dead_letter: DeadLetterRef | None = None
    """Where its undeliverable events go; by default the broker's dead letter."""
    start: Literal["latest", "earliest"] | StartSince = "latest"
    """Which events a new trigger begins with: `latest`, those that come from now on; `earliest`, all that the channel
    still has; `{time: …}` or `{ago: 2h}`, those since then. It counts once, when the trigger is made: then the trigger
    has a place of its own in the channel, which restarts and other values of `start` do not move."""
    delay: Annotated[Duration, Field(le=YEAR_S)] = 0.0
    """How long after it came an event is delivered: seconds, or with a unit, like `10m`, `2h`, `7d`; at most a year.
    The channel `log` can delay events."""
    deliver_at: DeliverAtConfig | None = None
    """When an event is delivered, if it says so itself."""
    allow_cycle: bool = False
    """True if the trigger may send events back to their own broker, because its filter ends the loop."""

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        for name, message, remedy in (*old_names(self.filter), *wildcards(self.filter)):
            yield ("filter", name), message, remedy
        if isinstance(self.start, StartSince) and self.start.time is not None:
            now_ns = time.time_ns()
            if self.start.time_ns(now_ns) > now_ns:
                message = "`start` is in the future: the trigger begins with the next event"
                yield ("start", "time"), message, "name a time in the past, or leave `start` out"


class BridgeConfig(EntryConfig):
    """A bridge carries events from a source straight to a sink. The source is acknowledged when the sink has the event
    (or the dead letter has it); nothing is stored in between."""

    source: SourceRef
    """Where events come from."""
    sink: SinkRef
    """Where events go."""
    filters: list[FilterRef] = []
    """Only events that match all of these are carried; the others are acknowledged and counted."""
    delivery: DeliveryConfig = DeliveryConfig(retry=0)
    """Retries here keep the source waiting; by default there are none, and the sender tries again. A source that
    fetches its events (Kafka) can wait: there the defaults are those of a trigger."""
    dead_letter: DeadLetterRef | None = None
    """Where events go that can't be delivered. Without it the source gets the failure; a source that fetches its events
    then waits until the sink accepts them, however long that takes."""

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        if self.dead_letter is None and pulls(self.source.options):
            message = "an event that its sink refuses holds up the others of its partition"
            yield (), f"the bridge has no `dead_letter`: {message}", "add a `dead_letter`"
        if self.delivery.hold_while_down and not pulls(self.source.options):
            message = "the senders of this bridge wait for their answer: nothing is held for them"
            yield ("delivery", "hold_while_down"), message, "remove it, or use a broker and a trigger"


class SecretConfig(Config):
    """A secret's place: an environment variable or a file. Use its value as `${secret:NAME}`; it is never shown."""

    env: str | None = None
    """The environment variable that holds it."""
    file: str | None = None
    """The file that holds it; a line break at the end is not part of it."""


class GatewayConfig(Config):
    """The whole config: one file, or a directory of files that are read as one."""

    brokers: dict[Name, BrokerConfig] = {}
    """Brokers by name. `default` is the one that triggers without a `broker` belong to."""
    triggers: dict[Name, TriggerConfig] = {}
    """Triggers by name."""
    bridges: dict[Name, BridgeConfig] = {}
    """Bridges by name."""
    observers: list[ObserverRef] = []
    """Observers of what happens to events (traces, metrics)."""
    secrets: dict[Name, SecretConfig] = {}
    """Secrets by name."""
    include: list[str] = []
    """Other files to read as well, relative to this one; `*` is expanded."""
    _sections: Mapping[str, Mapping[str, Any]] = {}

    @property
    def sections(self) -> Mapping[str, Mapping[str, Any]]:
        """All sections that plugins offer."""
        return self._sections

    def section(self, name: str) -> Mapping[str, Any]:
        """The entries, by name, of a section that a plugin offers (`ConfigSection`); none if the config lacks it."""
        return self._sections.get(name, {})

    def with_sections(self, sections: Mapping[str, Mapping[str, Any]]) -> GatewayConfig:
        """This config with these entries in the sections of plugins."""
        made = self.model_copy()
        made._sections = sections
        return made

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`: what the entries lack together."""
        if not self.brokers and not self.bridges:
            yield (), "there is neither a broker nor a bridge: the gateway has nothing to do", ""
        for name, trigger in self.triggers.items():
            if trigger.broker in self.brokers:
                continue
            place: Place = ("triggers", name, "broker") if "broker" in trigger.model_fields_set else ("triggers", name)
            remedy = near(trigger.broker, self.brokers)
            if not remedy:
                others = f"; brokers here: {', '.join(f'`{b}`' for b in self.brokers)}" if self.brokers else ""
                remedy = f"add it to `brokers`: `{trigger.broker}: {{}}`{others}"
            yield place, f"there is no broker `{trigger.broker}`: the trigger waits for it", remedy
        yield from self._short_retries()

    def _short_retries(self) -> Iterator[tuple[Place, str, str]]:
        """Where `retry_for` ends before the longest wait does: for a trigger only if its broker is not at fault."""
        found = [(("brokers", name), b.delivery, b.delivery) for name, b in self.brokers.items()]
        for name, trigger in self.triggers.items():
            broker = self.brokers.get(trigger.broker)
            if broker is None or broker.delivery.unmet_wait_s is None:
                policy = trigger.delivery.over(broker.delivery) if broker is not None else trigger.delivery
                found.append((("triggers", name), trigger.delivery, policy))
        found += [(("bridges", name), b.delivery, b.delivery) for name, b in self.bridges.items()]
        for place, own, policy in found:
            if (wait := policy.unmet_wait_s) is not None:
                keys = [
                    name for name in ("retry_for", "backoff_max_s", "backoff_delay_s") if name in own.model_fields_set
                ]
                message = f"`retry_for` is {policy.retry_for:g} s, shorter than the longest wait of {wait:g} s"
                remedy = "set `retry_for` to more, or `backoff_max_s` to less"
                yield (*place, "delivery", *keys[:1]), f"{message}: the attempt after such a wait is the last", remedy
