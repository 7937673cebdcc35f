"""Options of the `kafka` transport and of the channel `kafka`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gateway_core.component import CodecRef, Config, KeyMapperRef

from .template import checked

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/\s,@]+):(\d{1,5})")


def _servers(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ValueError("write HOST:PORT, an IPv6 host in brackets")
    return text


def _topic(text: str) -> str:
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError("a topic's name has letters, digits, `.`, `_` and `-` only, 249 at most")
    return text


Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
Server = Annotated[str, AfterValidator(_server)]
Servers = Annotated[
    list[Server], BeforeValidator(_servers, json_schema_input_type=list[str] | str), Field(min_length=1)
]
Topic = Annotated[str, AfterValidator(_topic)]
Topics = Annotated[list[Topic], BeforeValidator(_servers, json_schema_input_type=list[str] | str), Field(min_length=1)]


class KafkaTlsConfig(Config):
    """Certificates for a TLS listener."""

    ca_file: Path | None = None
    """Certificate authorities to trust (PEM) instead of the system's."""
    cert_file: Path | None = None
    """A client certificate chain, PEM (mutual TLS)."""
    key_file: Path | None = None
    """Its private key, PEM."""
    key_password: str | None = None
    """What the private key is encrypted with; use `${secret:NAME}`."""
    verify_host: bool = True
    """False trusts a certificate for another host name."""


class OAuthConfig(Config):
    """Where a token for OAUTHBEARER comes from: a file, or an OAuth 2.0 token endpoint (RFC 6749 section 4.4)."""

    token_file: Path | None = None
    """A file that holds the token; it is read again for each new connection."""
    token_url: str | None = None
    """The token endpoint, asked with the client's credentials."""
    client_id: str | None = None
    """The client's id there."""
    client_secret: str | None = None
    """Its secret; use `${secret:NAME}`."""
    scope: str | None = None
    """The scope to ask for."""

    @model_validator(mode="after")
    def _one_way(self) -> OAuthConfig:
        if (self.token_file is None) == (self.token_url is None):
            raise ValueError("set either `token_file` or `token_url`")
        if self.token_url is not None and (self.client_id is None or self.client_secret is None):
            raise ValueError("`token_url` needs `client_id` and `client_secret`")
        return self


class SaslConfig(Config):
    """Who we are, for a SASL listener."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = "SCRAM-SHA-512"
    """The mechanism."""
    username: str | None = None
    """The user, for PLAIN and SCRAM."""
    password: str | None = None
    """The password; use `${secret:NAME}`."""
    oauth: OAuthConfig | None = None
    """Where the token comes from, for OAUTHBEARER."""

    @model_validator(mode="after")
    def _complete(self) -> SaslConfig:
        if self.mechanism == "OAUTHBEARER":
            if self.oauth is None:
                raise ValueError("OAUTHBEARER needs `oauth`")
        elif self.username is None or self.password is None:
            raise ValueError(f"{self.mechanism} needs `username` and `password`")
        return self


class KafkaConfig(Config):
    """How to reach a cluster."""

    bootstrap: Servers = ["127.0.0.1:9092"]
    """One or more brokers of the cluster to begin with, `HOST:PORT`, as a list or with commas between."""
    client: Literal["aiokafka", "confluent"] = "aiokafka"
    """The client library: `aiokafka` is pure asyncio; `confluent` (librdkafka) takes less CPU and rebalances
    cooperatively."""
    client_id: str = "tidegate"
    """What the cluster's logs and quotas call this client."""
    tls: KafkaTlsConfig | None = None
    """Connects with TLS; `tls: {}` trusts the system's authorities."""
    sasl: SaslConfig | None = None
    """Authenticates with SASL."""
    request_timeout_s: Seconds = 20.0
    """How long the cluster may take to answer one request, in seconds."""

    @property
    def end(self) -> str:
        """The cluster and who we are there, for `tidegate check --connect`."""
        user = self.sasl.username if self.sasl is not None else None
        return f"Kafka at {','.join(self.bootstrap)}" + (f" as {user}" if user else "")

    def connect(self, limit_s: float) -> None:
        """Tries to connect and to log in. Raises `OSError` with the reason."""
        from .asking import reach  # a library that only this needs

        reach(self, limit_s)


class KafkaProducerConfig(KafkaConfig):
    """How records are written."""

    linger_ms: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """How long a record waits for others to go with it, in milliseconds. 0 sends at once when nothing is under way,
    and gathers while something is."""
    batch_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 256 * 1024
    """The most bytes in one batch of records."""
    max_record_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 1024 * 1024
    """The largest record, in bytes; what is larger can't be delivered. The cluster's `message.max.bytes`, and the
    topic's `max.message.bytes`, must allow it: else a refused batch is sent again record by record, with `client:
    confluent` behind later records of its keys."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    """How batches are compressed."""
    delivery_timeout_s: Seconds = 30.0
    """How long a record may take to be acknowledged, all tries of the client included, in seconds."""


def _with_url(value: Any) -> Any:
    """`kafka://HOST:PORT[,HOST:PORT]/TOPIC` as `bootstrap` and `topic`."""
    if not isinstance(value, dict) or not isinstance(value.get("url"), str):
        return value
    parts = urlsplit(value["url"])
    topic = parts.path.strip("/")
    if parts.scheme != "kafka" or not parts.netloc or not topic or parts.query or "/" in topic:
        raise ValueError("write kafka://HOST:PORT/TOPIC")
    rest = {k: v for k, v in value.items() if k != "url"}
    return {"bootstrap": parts.netloc, "topic": topic, **rest}


class KafkaSinkConfig(KafkaProducerConfig):
    """Writes each event as one record."""

    topic: Annotated[str, AfterValidator(checked)]
    """The topic; `{attribute}` stands for an attribute's value, with `_` for what no topic's name may have."""
    codec: CodecRef = CodecRef("cloudevents")
    """How events become records: content mode and format."""
    key: KeyMapperRef = KeyMapperRef("record")
    """What the record key is."""

    _url = model_validator(mode="before")(_with_url)


class TimestampStart(Config):
    """Begins with the first record at or after a time."""

    timestamp: str
    """The time, RFC 3339 (`2026-01-31T08:00:00Z`)."""


class OffsetStart(Config):
    """Begins at an offset."""

    offset: Annotated[int, Field(ge=0)]
    """The offset, the same in every partition."""


Start = Literal["earliest", "latest"] | TimestampStart | OffsetStart


class KafkaSourceConfig(KafkaConfig):
    """Reads records as a member of a consumer group."""

    pulls: ClassVar[bool] = True  # what `tidegate check` asks, which builds nothing

    topics: Topics = Field(alias="topic")
    """The topic, or a list of topics."""
    group: Annotated[str, Field(min_length=1, max_length=249)] | None = None
    """The consumer group; by default `tidegate.` and the name of the broker or bridge. Gateways with one group share
    the work."""
    codec: CodecRef = CodecRef("cloudevents")
    """How records become events."""
    start: Start = "latest"
    """Where a group begins that has no committed offsets."""
    not_an_event: Literal["dead_letter", "wrap", "drop"] = "dead_letter"
    """What becomes of a record that holds no CloudEvent: into the dead letter as it is; made an event; or dropped and
    counted."""
    wrap_type: Annotated[str, Field(min_length=1)] = "dev.tidegate.kafka.record"
    """The `type` of an event that was made of a record."""
    max_poll_records: Annotated[int, Field(ge=1, le=10_000)] = 500
    """The most records taken at once."""
    commit_interval_s: Seconds = 0.5
    """How often offsets are committed, in seconds. What was done since is done again after a crash."""
    session_timeout_s: Seconds = 30.0
    """How long the group waits for a member that is silent, in seconds."""
    drain_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """How long a partition that goes to another member waits for what is under way, in seconds."""

    _url = model_validator(mode="before")(_with_url)

    def group_of(self, owner: str) -> str:
        """The group's name, for the broker or bridge of this name."""
        return self.group or f"tidegate.{owner}"


class KafkaChannelConfig(KafkaProducerConfig):
    """Keeps a broker's events in a topic; its triggers are consumer groups. Any number of gateways share the work."""

    topic: Topic | None = None
    """The topic; by default `tidegate.` and the broker's name."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 6
    """How many partitions the topic gets where it does not exist yet."""
    replication: Annotated[int, Field(ge=1, le=100)] | None = None
    """How many replicas it then gets; the cluster's default where absent."""
    group_prefix: str = "tidegate"
    """A trigger's consumer group is this, the broker's name and the trigger's name, with dots between."""
    codec: CodecRef = CodecRef("cloudevents")
    """The content mode of the records."""
    key: KeyMapperRef = KeyMapperRef("record")
    """What the record key is."""
    max_queue_bytes: Annotated[int, Field(ge=1024)] = 64 * 1024 * 1024
    """The most bytes that wait to be written, in 100,000 records at most: beyond that senders get 503 until the cluster
    has taken some."""
    max_poll_records: Annotated[int, Field(ge=1, le=10_000)] = 500
    """The most records taken at once."""
    commit_interval_s: Seconds = 0.5
    """How often places are committed, in seconds."""
    session_timeout_s: Seconds = 30.0
    """How long the group waits for a member that is silent, in seconds."""
    drain_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """How long a partition that goes to another gateway waits for what is under way, in seconds."""

    def topic_of(self, broker: str) -> str:
        """The topic of this broker."""
        return self.topic or f"tidegate.{broker}"

    def group_of(self, broker: str, trigger: str) -> str:
        """The consumer group of a trigger of this broker."""
        return f"{self.group_prefix}.{broker}.{trigger}"
