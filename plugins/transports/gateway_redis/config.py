"""Options of the `redis` transport."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote, urlsplit

from gateway_options.addresses import Listed
from gateway_options.template import NameRules
from gateway_transport.held_bytes import HeldBytesConfig
from gateway_transport.not_an_event import NotAnEventConfig
from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.component import CodecRef, Config, KeyMapperRef

from .connection_config import RedisConfig, Seconds

_ID = re.compile(r"\d{1,20}(-\d{1,20})?")
STREAM = NameRules(
    what="stream",
    literal=re.compile(r"[^\x00-\x20\x7f{}]*"),
    forbidden=re.compile(r"[\x00-\x20\x7f-\x9f{}]"),
    most=1024,
    rule="a stream's name may have any characters but spaces and controls, and `{attribute}`, at most 1024 bytes",
)


def _name(text: str) -> str:
    if not text or not text.isprintable() or " " in text or len(text.encode()) > STREAM.most:
        raise ValueError("must be 1 to 1024 bytes without spaces and control characters")
    return text


def _start(text: str) -> str:
    if text not in ("$", "0") and not _ID.fullmatch(text):
        raise ValueError("must be `$` (the end), `0` (the beginning) or the id of an entry, such as 1700000000000-0")
    return text


def _once(streams: list[str]) -> list[str]:
    if len({*streams}) < len(streams):
        raise ValueError("a stream is named twice")
    return streams


Name = Annotated[str, AfterValidator(_name)]
Streams = Annotated[Listed[Name], AfterValidator(_once)]


def _with_url(value: Any, field: str) -> Any:
    """`redis://[USER:PASSWORD@]HOST[:PORT]/[DB/]STREAM` in place of its parts; with the stream beside it, the path is
    `/[DB]`."""
    if not isinstance(value, dict) or not isinstance(value.get("url"), str):
        return value
    parts = urlsplit(value["url"])
    path = [unquote(part) for part in parts.path.split("/") if part]
    stream = path.pop() if field not in value and path else None
    if (
        parts.scheme not in ("redis", "rediss")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or len(path) > 1
        or not all(part.isdigit() for part in path)
        or (stream is None and field not in value)
    ):
        raise ValueError("must be redis://[USER:PASSWORD@]HOST[:PORT]/[DB/]STREAM, or rediss:// for TLS")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    found: dict[str, Any] = {"servers": f"{host}:{parts.port or 6379}"}
    found |= {field: stream} if stream is not None else {}
    found |= {"db": int(path[0])} if path else {}
    found |= {"username": unquote(parts.username)} if parts.username else {}
    found |= {"password": unquote(parts.password)} if parts.password is not None else {}
    found |= {"tls": {}} if parts.scheme == "rediss" else {}
    return {**found, **{k: v for k, v in value.items() if k != "url"}}


class MaxLen(Config):
    """Keeps the newest entries, read or not."""

    maxlen: Annotated[int, Field(ge=1)]
    """How many entries the stream keeps, about: Redis removes whole blocks."""


class MaxAge(Config):
    """Keeps young entries, read or not."""

    max_age_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """How old an entry may become, in seconds, about. Needs Redis 6.2."""


class RedisSinkConfig(RedisConfig):
    """Adds each event to a stream as one entry."""

    stream: Annotated[str, AfterValidator(STREAM.checked)]
    """The stream; `{attribute}` is replaced by an attribute's value, with `_` for spaces, controls and braces."""
    codec: CodecRef = CodecRef("cloudevents")
    """How events become entries: content mode and format."""
    key: KeyMapperRef = KeyMapperRef("record")
    """The field `key`."""
    trim: Literal["never", "acked"] | MaxLen | MaxAge = "never"
    """How streams are kept short. `never`: not by the gateway. `acked`: entries that all consumer groups have
    acknowledged are removed; without a group none are. `maxlen` and `max_age_s` remove entries whether they were read
    or not."""
    wait_replicas: Annotated[int, Field(ge=0, le=100)] = 0
    """How many replicas must have an entry before it counts as delivered (WAIT). Not for clusters."""
    wait_timeout_s: Seconds = 1.0
    """How long to wait for the replicas, in seconds. Then the events are sent again."""

    @model_validator(mode="before")
    @classmethod
    def _url(cls, value: Any) -> Any:
        return _with_url(value, "stream")

    @model_validator(mode="after")
    def _waits(self) -> RedisSinkConfig:
        if self.cluster and self.wait_replicas:
            raise ValueError("`wait_replicas` does not work with a cluster")
        return self

    def connect(self, limit_s: float) -> None:
        """Connects, and looks whether entries may be added. Raises `OSError` with the reason."""
        from .connect import check_streams  # imports redis, which the models do not need

        check_streams(self, [] if "{" in self.stream else [self.stream], limit_s)

    def warnings(self) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
        """See `Config`."""
        if isinstance(self.trim, MaxLen | MaxAge):
            message = "trimming removes entries that no consumer has read yet"
            yield ("trim",), message, "use `trim: acked`, which keeps what a consumer group has not acknowledged"


class RedisSourceConfig(RedisConfig, NotAnEventConfig, HeldBytesConfig):
    """Reads streams as a consumer of a group."""

    pulls: ClassVar[bool] = True  # for `tidegate check`, which builds no component

    streams: Streams = Field(alias="stream")
    """The stream, or a list of streams."""
    group: Name | None = None
    """The consumer group; by default `tidegate.` and the name of the broker or bridge. It is created if it does not
    exist. Gateways with the same group share the work."""
    consumer: Name | None = None
    """The first part of the consumer's name; the worker's number follows. It must be the same after a restart, and
    different for each gateway of the group; by default it is made from the host's name and the data directory."""
    start: Annotated[str, AfterValidator(_start)] = "$"
    """Where a new group starts: `$` with entries added from now on, `0` with the first entry, or after the entry with
    this id."""
    codec: CodecRef = CodecRef("cloudevents")
    """How entries become events."""
    wrap_type: Annotated[str, Field(min_length=1)] = "dev.tidegate.redis.entry"
    """The `type` of an event that wraps an entry."""
    prefetch: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """The most entries of a stream that may be in progress; beyond that, no more are read."""
    claim_idle_s: Annotated[float, Field(ge=0.1, le=86400, allow_inf_nan=False)] = 60.0
    """After how long entries of a silent consumer are taken over, in seconds. A consumer shows three times as often
    that it still works on its entries. All consumers of a group need the same value."""
    max_deliveries: Annotated[int, Field(ge=1)] | None = None
    """An entry that was handed out more often goes to the dead letter. Without it, there is no limit."""
    forget_consumers_s: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 86400.0
    """After how long a gateway's consumer that is silent and holds no entries is removed from the group, in
    seconds."""

    @model_validator(mode="before")
    @classmethod
    def _url(cls, value: Any) -> Any:
        return _with_url(value, "stream")

    def group_of(self, owner: str) -> str:
        """The group for the broker or bridge with this name."""
        return self.group or f"tidegate.{owner}"

    def connect(self, limit_s: float) -> None:
        """Connects, and looks whether the streams may be read. Raises `OSError` with the reason."""
        from .connect import check_streams  # imports redis, which the models do not need

        check_streams(self, self.streams, limit_s)
