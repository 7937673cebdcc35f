"""Options of the `mqtt` transport."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote

from gateway_options.template import NameRules
from gateway_transport.held_bytes import HeldBytesConfig
from gateway_transport.not_an_event import NotAnEventConfig
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gateway_core.contract.component import CodecRef

from .server_config import CONTROL, MOST_BYTES, NO_CHARACTERS, MqttConfig, Qos, Seconds

_URL = re.compile(r"(mqtts?)://([^/]+)/(.+)", re.DOTALL)
_GROUP = re.compile(rf"[^/+#{CONTROL}]+")
_FILTER = re.compile(rf"(?:(?:\+|[^+#/{CONTROL}]*)/)*(?:\+|#|[^+#/{CONTROL}]*)")

TOPIC = NameRules(
    what="topic",
    literal=re.compile(rf"(?!\$)[^+#{{}}{CONTROL}]*"),
    forbidden=re.compile(rf"[+#/${CONTROL}{NO_CHARACTERS}\ud800-\udfff]"),
    most=MOST_BYTES,
    rule="a topic name may have all characters but `+`, `#` and control characters, and does not begin with `$`;"
    " `{attribute}` stands for an attribute",
)


def _filter(text: str) -> str:
    if text.startswith("$share/"):
        raise ValueError("a shared subscription has its group in `group`, and the plain filter here")
    if not text or not _FILTER.fullmatch(text) or len(text.encode()) > MOST_BYTES:
        raise ValueError("is no topic filter: `+` stands for one whole level, `#` for all that follow")
    return text


def _group(text: str) -> str:
    if not _GROUP.fullmatch(text):
        raise ValueError("a group's name has no `/`, `+`, `#` or control character")
    return text


def _attribute(text: str) -> str:
    if not re.fullmatch("[a-z0-9]+", text) or text in ("data", "specversion", "id", "source", "type"):
        raise ValueError("must be the name of an optional attribute: lower-case letters and digits")
    return text


def _client_id(text: str) -> str:
    if not text.isprintable() or len(text.encode()) > 256:
        raise ValueError("a client id has at most 256 bytes, and no control characters")
    return text


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


TopicFilters = Annotated[
    list[Annotated[str, AfterValidator(_filter)]],
    BeforeValidator(_listed, json_schema_input_type=list[str] | str),
    Field(min_length=1),
]


class ConnectionCheck(MqttConfig):
    """A server whose connection `tidegate check --connect` can test."""

    @property
    def end(self) -> str:
        """The server and the user, as shown by `tidegate check --connect`."""
        user = self.username if not self.hides("username") else None
        return f"MQTT at {self.url}" + (f" as {user}" if user else "")

    def connect(self, limit_s: float) -> None:
        """Connects and logs in. Raises `OSError` with the reason."""
        from .check import check_connection  # imports paho, which the models do not need

        check_connection(self, limit_s)


def _from_url(value: Any, field: str) -> Any:
    """`mqtt://HOST[:PORT]/TOPIC` as `server` and a topic; `mqtts` sets `tls`."""
    if not isinstance(value, dict) or not isinstance(value.get("url"), str):
        return value
    found = _URL.fullmatch(value["url"])
    if found is None or "@" in found[2]:
        raise ValueError("must be mqtt://HOST[:PORT]/TOPIC or mqtts://…, without a user: that is in `username`")
    rest = {k: v for k, v in value.items() if k != "url"}
    tls: dict[str, Any] = {"tls": {}} if found[1] == "mqtts" else {}
    return {"server": found[2], field: unquote(found[3]), **tls, **rest}


def _structured_only(value: Any) -> Any:
    """The codec of MQTT 3.1.1 (CloudEvents MQTT binding section 3: "always structured")."""
    if not isinstance(value, dict) or value.get("version") != "3.1.1":
        return value
    match value.get("codec", "cloudevents"):
        case "cloudevents" | {"cloudevents": None}:
            return {**value, "codec": {"cloudevents": {"mode": "structured"}}}
        case {"cloudevents": {"mode": "binary"}} | {"cloudevents": {"attribute_headers": True}}:
            raise ValueError("MQTT 3.1.1 has the structured mode only, without attributes beside the payload")
        case {"cloudevents": dict(options)}:
            return {**value, "codec": {"cloudevents": {"mode": "structured", **options}}}
    return value


class MqttSourceConfig(ConnectionCheck, NotAnEventConfig, HeldBytesConfig):
    """Subscribes to topics. A message is acknowledged once its event is stored or delivered."""

    pulls: ClassVar[bool] = True  # for `tidegate check`, which builds no component

    topics: TopicFilters = Field(alias="topic")
    """The topic filter, or a list of them; `+` stands for one level, `#` for all that follow."""
    qos: Qos = 1
    """The highest quality of service at which the server sends. With 0, events are lost whenever the connection breaks
    or the gateway stops. 2 costs two more packets for each event, and is still at least once."""
    group: Annotated[str, AfterValidator(_group)] | None = None
    """Shares the events with all subscribers that have the same group (`$share/GROUP/FILTER`); then every worker of
    the gateway has a connection of its own. Without it the source runs in one worker."""
    client_id: Annotated[str, AfterValidator(_client_id), Field(min_length=1)] | None = None
    """The name of the session at the server. By default it is derived from the broker's or bridge's name, the server
    and the topics, and the data directory remembers it, so that the session is kept when topics or names change. It
    must differ between gateways at one server. With `group`, the number of the worker follows."""
    session_expiry_s: Seconds = 7 * 24 * 3600
    """How long the server keeps the session, with the messages that wait in it, while the gateway is down, in seconds.
    4294967295 is for ever, and 0 not at all. With 3.1.1 the server alone decides."""
    receive_maximum: Annotated[int, Field(ge=1, le=65_535)] = 500
    """The most messages that the server may have sent without an acknowledgement. If the server sends more
    anyway (version 3.1.1, or `qos: 0`), reading stops until some are stored."""
    retained: Literal["new", "all", "ignore"] | None = None
    """Which messages that the server has retained it sends after a subscription: `new`: for a subscription that it did
    not have yet; `all`: at each connection, so the same messages arrive repeatedly; `ignore`: none. By default `new`,
    and with 3.1.1, which has no choice, `all`."""
    topic_attribute: Annotated[str, AfterValidator(_attribute)] | None = None
    """The attribute that gets the message's topic, such as `mqtttopic` or `subject`, in place of its value if the event
    has it already. By default none: the event stays as it was published."""
    key: Literal["none", "topic"] = "none"
    """The event's record key: none, or the topic, so that events of one topic stay in order in Kafka and in triggers
    with `order: key`."""
    codec: CodecRef = CodecRef("cloudevents")
    """How messages become events."""
    wrap_type: Annotated[str, Field(min_length=1)] = "dev.tidegate.mqtt.message"
    """The `type` of an event that wraps a message."""

    @model_validator(mode="before")
    @classmethod
    def _before(cls, value: Any) -> Any:
        return _structured_only(_from_url(value, "topic"))

    @model_validator(mode="after")
    def _of_version_5(self) -> MqttSourceConfig:
        if self.version != "5":
            if self.group is not None:
                raise ValueError("`group` needs version 5: 3.1.1 has no shared subscriptions")
            if self.retained == "new":
                raise ValueError("`retained: new` needs version 5: with 3.1.1 use `all` or `ignore`")
        return self

    def warnings(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """See `Config`."""
        if self.qos == 0:
            yield (
                ("qos",),
                "events arrive at most once: one that is not stored yet is lost with the connection",
                "use `qos: 1`",
            )
        elif self.session_expiry_s == 0 and self.version == "5":
            said = "the server forgets the session, and what waits in it, as soon as the gateway is down"
            yield ("session_expiry_s",), said, "set how long the gateway may be away"


class MqttSinkConfig(ConnectionCheck):
    """Publishes each event as one message."""

    topic: Annotated[str, AfterValidator(TOPIC.checked)]
    """The topic; `{attribute}` is replaced by an attribute's value, with `_` for characters that can't be part of a
    level."""
    qos: Qos = 1
    """The quality of service. With 0 an event counts as delivered when it is sent, and may get lost. 2 keeps the server
    from storing an event twice unless the connection breaks."""
    retain: bool = False
    """Whether the server keeps the last message of each topic for later subscribers."""
    expiry_s: Annotated[int, Field(ge=1, le=0xFFFF_FFFF)] | None = None
    """After how many seconds the server drops a message that a subscriber has not taken. Version 5 only."""
    client_id: Annotated[str, AfterValidator(_client_id), Field(min_length=1)] | None = None
    """The first part of the client id; a random part follows, since each connection is a session of its own. By default
    `tidegate-` and the sink's place in the config."""
    max_in_flight: Annotated[int, Field(ge=1, le=65_535)] = 1000
    """The most messages that wait for an acknowledgement; the server may ask for less (Receive Maximum)."""
    codec: CodecRef = CodecRef("cloudevents")
    """How events become messages: content mode and format."""

    @model_validator(mode="before")
    @classmethod
    def _before(cls, value: Any) -> Any:
        return _structured_only(_from_url(value, "topic"))

    @model_validator(mode="after")
    def _of_version_5(self) -> MqttSinkConfig:
        if self.version != "5" and self.expiry_s is not None:
            raise ValueError("`expiry_s` needs version 5")
        return self

    def warnings(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """See `Config`."""
        if self.qos == 0:
            yield (
                ("qos",),
                "events are delivered at most once: nothing tells whether the server has them",
                "use `qos: 1`",
            )
