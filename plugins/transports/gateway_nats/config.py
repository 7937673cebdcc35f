"""Options of the `nats` transport and of the channel `jetstream`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from gateway_options.template import NameRules
from gateway_transport.held_bytes import HeldBytesConfig
from gateway_transport.not_an_event import NotAnEventConfig
from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.component import CodecRef, Config, KeyMapperRef
from gateway_core.contract.config_node import Place

from .client_config import Name, NatsConfig, Subject, SubjectFilter, SubjectFilters, name_from, with_url

SUBJECTS = NameRules(
    "subject",
    re.compile(r"[^\s*>\x00-\x1f\x7f]*"),
    # a value can't bring in wildcards, empty tokens, or the server's own subjects
    re.compile(r"[\s*>$\x00-\x1f\x7f]|^\.|\.$|\.(?=\.)"),
    512,
    "a subject may have letters, digits, `.`, `_`, `-` and `{attribute}`, but no spaces, `*` and `>`",
)


def _template(text: str) -> str:
    SUBJECTS.checked(text)
    if text.startswith("{"):
        raise ValueError("must begin with fixed text, so that no event can name a subject of the server's own")
    if re.search(r"^\.|\.\.|\.$", text):
        raise ValueError("has an empty token: two dots in a row, or one at an end")
    return text


class StreamConfig(Config):
    """A stream as it must be. It is created if there is none. One that is different is a fault: Tidegate alters no
    stream."""

    subjects: SubjectFilters
    """Its subjects; `*` stands for one token, a last `>` for many."""
    storage: Literal["file", "memory"] = "file"
    """Where messages are kept. `memory` loses them when the server restarts."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """How many servers of the cluster keep each message."""
    retention: Literal["limits", "interest", "workqueue"] = "limits"
    """When messages are removed: at the limits below, when all consumers have acknowledged them, or when one has."""
    max_age_s: Annotated[float, Field(gt=0)] | None = None
    """Messages older than this are removed, read or not; in seconds. By default they are kept."""
    max_bytes: Annotated[int, Field(ge=1024)] | None = None
    """The most bytes of the stream; no limit by default."""
    max_messages: Annotated[int, Field(ge=1)] | None = None
    """The most messages of the stream; no limit by default."""
    at_limit: Literal["drop_old", "refuse_new"] = "refuse_new"
    """What happens at `max_bytes` and `max_messages`: the oldest messages are removed, read or not, or new ones are not
    accepted."""
    duplicates_s: Annotated[float, Field(gt=0)] | None = None
    """How long the server recognises a repeated message by its `Nats-Msg-Id`, in seconds; by default the server's two
    minutes."""


class ConnectionCheck(NatsConfig):
    """Servers whose connection `tidegate check --connect` can test."""

    @property
    def end(self) -> str:
        """The servers and the user, as shown by `tidegate check --connect`."""
        return f"NATS at {','.join(self.servers)}" + (f" as {self.visible('user')}" if self.user else "")

    def connect(self, limit_s: float) -> None:
        """Connects and logs in. Raises `OSError` with the reason."""
        from .probe import try_connection  # imports nats-py, which the models do not need

        try_connection(self, limit_s)


class NatsSinkConfig(ConnectionCheck):
    """Publishes each event as one message."""

    subject: Annotated[str, AfterValidator(_template)]
    """The subject; `{attribute}` is replaced by an attribute's value, with `_` for what a subject can't have. Dots in a
    value separate tokens."""
    jetstream: bool = True
    """Whether a stream must store the message. `false` publishes with core NATS: at most once, to whoever listens."""
    stream: Name | None = None
    """The stream that must store the message; by default any that has the subject."""
    create: StreamConfig | None = None
    """The stream as it must be; created if there is none. It needs `stream`."""
    codec: CodecRef = CodecRef("cloudevents", {"mode": "structured"})
    """How events become messages: content mode and format. CloudEvents' NATS binding 1.0.2 has structured mode only;
    `{cloudevents: {mode: binary}}` writes attributes as headers, as its next version has it."""
    message_id: bool = True
    """Whether messages have a `Nats-Msg-Id` (from source, id, type and subject), by which a stream drops repeats."""

    _url = with_url("subject")

    @model_validator(mode="after")
    def _stream_given(self) -> NatsSinkConfig:
        if self.create is not None and self.stream is None:
            raise ValueError("`create` needs the stream's name, `stream`")
        if not self.jetstream and self.stream is not None:
            raise ValueError("`stream` is for JetStream; leave out `jetstream: false`")
        return self

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        if not self.jetstream:
            yield (
                ("jetstream",),
                "core NATS delivers at most once: an event that nobody listens for is gone, and counts as delivered",
                "use JetStream (`jetstream: true`) if events must arrive",
            )


class SequenceStart(Config):
    """Starts at a message."""

    sequence: Annotated[int, Field(ge=1)]
    """Its sequence number in the stream."""


class TimestampStart(Config):
    """Starts at the first message at or after a time."""

    timestamp: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")]
    """The time, RFC 3339 (`2026-01-31T08:00:00Z`)."""


Start = Literal["earliest", "latest"] | SequenceStart | TimestampStart


class NatsSourceConfig(ConnectionCheck, NotAnEventConfig, HeldBytesConfig):
    """Reads the messages of a stream with a durable pull consumer."""

    pulls: ClassVar[bool] = True  # for `tidegate check`, which builds no component

    subject: SubjectFilter
    """The subject; `*` stands for one token, a last `>` for many."""
    jetstream: bool = True
    """Whether to read from a stream. `false` listens with core NATS: at most once; what is sent while no gateway
    listens, or while it has no room, is lost."""
    stream: Name | None = None
    """The stream; by default the one that has the subject."""
    create: StreamConfig | None = None
    """The stream as it must be; created if there is none. It needs `stream`."""
    consumer: Name | None = None
    """The durable consumer, or the queue group of core NATS; by default `tidegate_` and the name of the broker or
    bridge. Gateways and workers with the same name share the messages."""
    start: Start = "latest"
    """Where a new consumer starts."""
    codec: CodecRef = CodecRef("cloudevents")
    """How messages become events."""
    key_token: Annotated[int, Field(ge=1, le=64)] | None = None
    """The event's key is this token of the subject, counted from 1; without it events have no key."""
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """The most messages that are fetched and not acknowledged. Of core NATS, what comes beyond, or beyond
    `max_held_bytes`, is dropped."""
    ack_wait_s: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """When the server sends a message again that is neither acknowledged nor reported as in progress, in seconds. The
    gateway reports it at a third of that time."""
    max_deliveries: Annotated[int, Field(ge=1)] | None = None
    """An event that was delivered this often and never acknowledged (it ends the gateway, for example) goes to the dead
    letter. By default it is delivered again without limit."""

    _url = with_url("subject")

    @model_validator(mode="after")
    def _stream_given(self) -> NatsSourceConfig:
        if self.create is not None and self.stream is None:
            raise ValueError("`create` needs the stream's name, `stream`")
        if not self.jetstream and (self.stream is not None or "start" in self.model_fields_set):
            raise ValueError("`stream` and `start` are for JetStream; leave out `jetstream: false`")
        return self

    def consumer_of(self, owner: str) -> str:
        """The consumer's name for the broker or bridge with this name."""
        return self.consumer or name_from("tidegate", owner)

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        if not self.jetstream:
            yield (
                ("jetstream",),
                "core NATS delivers at most once: what is sent while no gateway listens is lost",
                "use JetStream (`jetstream: true`) if no event may be lost",
            )


class JetStreamChannelConfig(ConnectionCheck):
    """Stores a broker's events in a stream; its triggers are durable consumers. Any number of gateways share the
    work."""

    stream: Name | None = None
    """The stream; by default `tidegate_` and the broker's name. It is created if there is none."""
    subject: Subject | None = None
    """The stream's subject; by default `tidegate.` and the broker's name."""
    consumer_prefix: Name = "tidegate"
    """The first part of the triggers' consumers; the trigger's name follows."""
    storage: Literal["file", "memory"] = "file"
    """Where events are kept. `memory` loses them when the server restarts."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """How many servers of the cluster keep each event."""
    max_age_s: Annotated[float, Field(gt=0)] | None = None
    """Events older than this are removed, delivered or not; in seconds. By default none is."""
    max_bytes: Annotated[int, Field(ge=1024)] | None = None
    """The most bytes of the stream; no limit by default. At the limit senders get 503."""
    keep_s: Annotated[float, Field(ge=0)] | None = 7 * 86_400.0
    """How long events that all triggers have settled are kept, in seconds; null keeps them forever."""
    codec: CodecRef = CodecRef("cloudevents")
    """The content mode of the messages."""
    key: KeyMapperRef = KeyMapperRef("record")
    """The record key, kept in the header `Tidegate-Key`."""
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] = 2000
    """The most events of a trigger that are read and not settled, of all gateways together (`max_ack_pending`)."""
    ack_wait_s: Annotated[float, Field(ge=1, le=3600)] = 10.0
    """When an event goes to another gateway, or again to this one, after its gateway has crashed; in seconds."""
    max_queue_bytes: Annotated[int, Field(ge=1024)] = 64 * 1024 * 1024
    """The most bytes that may wait to be written. Beyond that, senders get 503 until the server has accepted some."""

    def stream_of(self, broker: str) -> str:
        """The stream of this broker."""
        return self.stream or name_from("tidegate", broker)

    def subject_of(self, broker: str) -> str:
        """The subject of this broker's events."""
        return self.subject or f"tidegate.{name_from(broker)}"

    def consumer_of(self, trigger: str) -> str:
        """The consumer of a trigger of this broker."""
        return name_from(self.consumer_prefix, trigger)

    def stream_config(self, broker: str, duplicates_s: float | None = None) -> StreamConfig:
        """The stream as it must be, with this duplicate window if the broker deduplicates."""
        given = {name: getattr(self, name) for name in ("storage", "replicas", "max_age_s", "max_bytes")}
        known = {name: value for name, value in given.items() if value is not None}
        return StreamConfig(subjects=[self.subject_of(broker)], duplicates_s=duplicates_s, **known)
