"""Options of the transport `rabbitmq`."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from gateway_options.template import NameRules
from gateway_transport.held_bytes import HeldBytesConfig
from gateway_transport.not_an_event import NotAnEventConfig
from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.component import CodecRef, Config, KeyMapperRef

from .client_config import Arguments, Name, RabbitConfig, ShortText

ROUTING_KEY = NameRules(
    "routing key",
    re.compile(r"[^\x00-\x1f\x7f{}]*"),
    re.compile(r"[\x00-\x1f\x7f]"),
    255,
    "a routing key may have `{attribute}` and anything but control characters, at most 255 bytes",
)


class ConnectionCheck(RabbitConfig):
    """A server whose connection `tidegate check --connect` can test."""

    @property
    def end(self) -> str:
        """The server and the user, as shown by `tidegate check --connect`."""
        user = "with a certificate" if self.login == "external" else f"as {self.visible('username')}"
        return f"RabbitMQ at {self.where} {user}"

    def connect(self, limit_s: float) -> None:
        """Connects, logs in, and looks for what must exist. Raises `OSError` with the reason."""
        from .session import check  # imports pamqp, which the models do not need

        check(self, self.needed, limit_s)

    @property
    def needed(self) -> tuple[str, str]:
        """What must exist: "queue" or "exchange", and its name; both "" for nothing."""
        return "", ""


class BindingConfig(Config):
    """What the queue gets from an exchange."""

    exchange: Name
    """The exchange."""
    routing_key: ShortText = ""
    """The routing key; of a topic exchange a pattern (`orders.*`, `orders.#`)."""
    type: Literal["topic", "direct", "fanout", "headers"] | Name | None = None
    """The exchange's type: it is declared, durable. Without it the exchange must exist."""
    arguments: Arguments = {}
    """Arguments of the binding, such as the values that a headers exchange compares."""


class RabbitSourceConfig(ConnectionCheck, NotAnEventConfig, HeldBytesConfig):
    """Consumes a queue."""

    pulls: ClassVar[bool] = True  # for `tidegate check`, which builds no component

    queue: Name
    """The queue."""
    declare: bool = True
    """Declares the queue, durable: it is created if it does not exist, and one that is not as configured is a fault.
    With `false` it must exist, and is used as it is."""
    queue_type: Literal["quorum", "classic"] = "quorum"
    """The type of the queue."""
    single_active_consumer: bool = False
    """Only one consumer of the queue gets messages at a time, in the queue's order; others wait to take over."""
    delivery_limit: Annotated[int, Field(ge=1)] | None = None
    """How often a quorum queue delivers a message again; then it drops the message, or moves it to the dead-letter
    exchange. Without it, never."""
    dead_letter_exchange: ShortText | None = None
    """The exchange to which the queue moves rejected messages; "" for the default exchange."""
    dead_letter_routing_key: ShortText | None = None
    """The routing key for them; else that of the message."""
    arguments: Arguments = {}
    """Other arguments of the queue (`x-max-length: 100000`)."""
    bindings: list[BindingConfig] = []
    """What the queue gets from exchanges."""
    prefetch: Annotated[int, Field(ge=1, le=65535)] = 1000
    """The most messages that may be here and not acknowledged. The server sends no more until some are."""
    key: Literal["none", "routing_key"] = "none"
    """`routing_key` makes it the record key of the event, for order by key and Kafka."""
    codec: CodecRef = CodecRef("cloudevents")
    """How messages become events."""
    not_an_event: Literal["dead_letter", "wrap", "drop", "reject"] = "dead_letter"  # type: ignore[assignment]
    """What happens to a message that is not a CloudEvent: it goes to the dead letter as it is, is wrapped in an event,
    is dropped and counted, or is rejected and counted, so that the queue moves it to its dead-letter exchange if it
    has one."""
    wrap_type: Annotated[str, Field(min_length=1)] = "dev.tidegate.rabbitmq.message"
    """The `type` of an event that wraps a message."""

    @model_validator(mode="after")
    def _queue(self) -> RabbitSourceConfig:
        if self.dead_letter_routing_key is not None and self.dead_letter_exchange is None:
            raise ValueError("`dead_letter_routing_key` needs `dead_letter_exchange`")
        if self.delivery_limit is not None and self.queue_type != "quorum":
            raise ValueError("only a quorum queue has a `delivery_limit`")
        ours = self.queue_arguments.keys() - self.arguments.keys()
        if not self.declare and (ours - {"x-queue-type"} or self.arguments):
            raise ValueError("the queue's arguments need `declare: true`")
        return self

    @property
    def needed(self) -> tuple[str, str]:
        return ("", "") if self.declare else ("queue", self.queue)

    @property
    def queue_arguments(self) -> dict[str, Any]:
        """The arguments with which the queue is declared."""
        given = {
            "x-single-active-consumer": self.single_active_consumer or None,
            "x-delivery-limit": self.delivery_limit,
            "x-dead-letter-exchange": self.dead_letter_exchange,
            "x-dead-letter-routing-key": self.dead_letter_routing_key,
        }
        return {
            "x-queue-type": self.queue_type,
            **{k: v for k, v in given.items() if v is not None},
            **self.arguments,
        }


class RabbitSinkConfig(ConnectionCheck):
    """Publishes each event as one message."""

    exchange: ShortText = ""
    """The exchange; "" for the default exchange, whose routing key is the name of a queue."""
    exchange_type: Literal["topic", "direct", "fanout", "headers"] | Name | None = None
    """The exchange's type: it is declared, durable. Without it the exchange must exist."""
    queue: Name | None = None
    """Sends to this queue, without an exchange."""
    routing_key: Annotated[str, AfterValidator(ROUTING_KEY.checked)] | None = None
    """The routing key, `{type}` by default; `{attribute}` is replaced by an attribute's value."""
    key: KeyMapperRef | None = None
    """Takes the routing key from this key mapper instead, for exchanges that distribute by hash."""
    codec: CodecRef = CodecRef("cloudevents")
    """How events become messages: content mode and format."""
    headers: Literal["cloudevents", "knative"] = "cloudevents"
    """The names of the headers: `cloudEvents_id` (CloudEvents AMQP binding) or `ce-id`, which Knative reads."""
    persistent: bool = True
    """Whether the server keeps the messages on disk."""
    mandatory: bool = True
    """Whether a message that reaches no queue is a failure. With `false` the server drops it."""
    unroutable: Literal["retry", "dead_letter"] = "retry"
    """What follows for such a message: it is retried, because its queue may be about to be declared, or it goes to the
    dead letter at once."""
    max_message_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 128 * 1024 * 1024
    """The maximum size of a message, in bytes; larger ones can't be delivered. The server's `max_message_size` must
    allow it."""

    @model_validator(mode="after")
    def _one_key(self) -> RabbitSinkConfig:
        if self.queue is not None and (self.exchange or self.routing_key is not None or self.key is not None):
            raise ValueError("`queue` can't be combined with `exchange`, `routing_key` and `key`")
        if self.routing_key is not None and self.key is not None:
            raise ValueError("set either `routing_key` or `key`")
        if not self.exchange and self.queue is None and self.routing_key is None and self.key is None:
            raise ValueError("set `exchange` or `queue`")
        if self.exchange_type is not None and not self.exchange:
            raise ValueError("`exchange_type` needs `exchange`: the default exchange always exists")
        return self

    @property
    def needed(self) -> tuple[str, str]:
        if self.queue is not None:
            return "queue", self.queue
        return ("exchange", self.exchange) if self.exchange and self.exchange_type is None else ("", "")
