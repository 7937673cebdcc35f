"""Options of the `kafka` transport and of the channel `kafka`."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from gateway_options.addresses import Listed
from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.component import CodecRef, Config, KeyMapperRef

from .client_config import KafkaConfig, KafkaProducerConfig, Seconds
from .template import TOPIC

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _topic(text: str) -> str:
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError("a topic name may have letters, digits, `.`, `_` and `-`, at most 249 characters")
    return text


Topic = Annotated[str, AfterValidator(_topic)]
Topics = Listed[Topic]


class ConnectionCheck(KafkaConfig):
    """A cluster whose connection `tidegate check --connect` can test."""

    @property
    def end(self) -> str:
        """The cluster and the user, as shown by `tidegate check --connect`."""
        user = self.sasl.visible("username") if self.sasl is not None and self.sasl.username else None
        return f"Kafka at {','.join(self.bootstrap)}" + (f" as {user}" if user else "")

    def connect(self, limit_s: float) -> None:
        """Connects and logs in. Raises `OSError` with the reason."""
        from .admin_client import check_connection  # imports aiokafka, which the models do not need

        check_connection(self, limit_s)


def _with_url(value: Any) -> Any:
    """`kafka://HOST:PORT[,HOST:PORT]/TOPIC` as `bootstrap` and `topic`."""
    if not isinstance(value, dict) or not isinstance(value.get("url"), str):
        return value
    parts = urlsplit(value["url"])
    topic = parts.path.strip("/")
    if parts.scheme != "kafka" or not parts.netloc or not topic or parts.query or "/" in topic:
        raise ValueError("must be kafka://HOST:PORT/TOPIC")
    rest = {k: v for k, v in value.items() if k != "url"}
    return {"bootstrap": parts.netloc, "topic": topic, **rest}


class KafkaSinkConfig(KafkaProducerConfig, ConnectionCheck):
    """Writes each event as one record."""

    topic: Annotated[str, AfterValidator(TOPIC.checked)]
    """The topic; `{attribute}` is replaced by an attribute's value, with `_` for characters that topic names can't
    have."""
    codec: CodecRef = CodecRef("cloudevents")
    """How events become records: content mode and format."""
    key: KeyMapperRef = KeyMapperRef("record")
    """The record key."""

    _url = model_validator(mode="before")(_with_url)


class TimestampStart(Config):
    """Starts at the first record at or after a time."""

    timestamp: str
    """The time, RFC 3339 (`2026-01-31T08:00:00Z`)."""


class OffsetStart(Config):
    """Starts at an offset."""

    offset: Annotated[int, Field(ge=0)]
    """The offset, the same in every partition."""


Start = Literal["earliest", "latest"] | TimestampStart | OffsetStart


class KafkaSourceConfig(ConnectionCheck):
    """Reads records as a member of a consumer group."""

    pulls: ClassVar[bool] = True  # for `tidegate check`, which builds no component

    topics: Topics = Field(alias="topic")
    """The topic, or a list of topics."""
    group: Annotated[str, Field(min_length=1, max_length=249)] | None = None
    """The consumer group; by default `tidegate.` and the name of the broker or bridge. Gateways with the same group
    share the work."""
    codec: CodecRef = CodecRef("cloudevents")
    """How records become events."""
    start: Start = "latest"
    """Where a group without committed offsets starts."""
    not_an_event: Literal["dead_letter", "wrap", "drop"] = "dead_letter"
    """What happens to a record that is not a CloudEvent: it goes to the dead letter as it is, is wrapped in an event,
    or is dropped and counted."""
    wrap_type: Annotated[str, Field(min_length=1)] = "dev.tidegate.kafka.record"
    """The `type` of an event that wraps a record."""
    max_poll_records: Annotated[int, Field(ge=1, le=10_000)] = 500
    """The most records fetched at once."""
    commit_interval_s: Seconds = 0.5
    """How often offsets are committed, in seconds. After a crash, events since the last commit are processed again."""
    session_timeout_s: Seconds = 30.0
    """How long the group waits for a silent member, in seconds."""
    drain_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """How long a partition that moves to another member waits for events in flight, in seconds."""

    _url = model_validator(mode="before")(_with_url)

    def group_of(self, owner: str) -> str:
        """The group name for the broker or bridge with this name."""
        return self.group or f"tidegate.{owner}"


class KafkaChannelConfig(KafkaProducerConfig, ConnectionCheck):
    """Stores a broker's events in a topic; its triggers are consumer groups. Any number of gateways share the work."""

    topic: Topic | None = None
    """The topic; by default `tidegate.` and the broker's name."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 6
    """The number of partitions, if the topic has to be created."""
    replication: Annotated[int, Field(ge=1, le=100)] | None = None
    """The replication factor, if the topic has to be created; by default the cluster's."""
    group_prefix: str = "tidegate"
    """The first part of the triggers' consumer groups; the broker's name and the trigger's name follow, separated by
    dots."""
    codec: CodecRef = CodecRef("cloudevents")
    """The content mode of the records."""
    key: KeyMapperRef = KeyMapperRef("record")
    """The record key."""
    max_queue_bytes: Annotated[int, Field(ge=1024)] = 64 * 1024 * 1024
    """The most bytes, in at most 100,000 records, that may wait to be written. Beyond that, senders get 503 until the
    cluster has accepted some."""
    max_poll_records: Annotated[int, Field(ge=1, le=10_000)] = 500
    """The most records fetched at once."""
    commit_interval_s: Seconds = 0.5
    """How often offsets are committed, in seconds."""
    session_timeout_s: Seconds = 30.0
    """How long the group waits for a silent member, in seconds."""
    drain_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """How long a partition that moves to another gateway waits for events in flight, in seconds."""

    def topic_of(self, broker: str) -> str:
        """The topic of this broker."""
        return self.topic or f"tidegate.{broker}"

    def group_of(self, broker: str, trigger: str) -> str:
        """The consumer group of a trigger of this broker."""
        return f"{self.group_prefix}.{broker}.{trigger}"
