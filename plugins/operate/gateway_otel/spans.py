"""Names and attributes of the gateway's spans: OpenTelemetry's semantic conventions for messaging, CloudEvents and HTTP
spans, `tidegate.*` for anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind

from gateway_core.contract.event import Event
from gateway_core.contract.identity import ANONYMOUS
from gateway_core.contract.tracing import Origin, SendContext

Attributes = dict[str, str | int]

SYSTEM = "tidegate"
_CLOUDEVENTS = (
    # CloudEvents 1.0 and 0.3, 0.2, and 0.1 in its two spellings: the first one present
    ("cloudevents.event_id", ("id", "eventID", "event-id")),
    ("cloudevents.event_source", ("source",)),
    ("cloudevents.event_type", ("type", "eventType", "event-type")),
    ("cloudevents.event_spec_version", ("specversion", "cloudEventsVersion", "cloud-events-version")),
    ("cloudevents.event_subject", ("subject",)),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What all spans of one kind share."""

    name: str
    kind: SpanKind
    attributes: Mapping[str, str | int]
    http: bool = False


def of_origin(origin: Origin) -> Kind:
    """Spans of received events: `receive BROKER`, for a Kafka source `receive TOPIC`, for a reply `reply BROKER`."""
    address = origin.address()
    attributes: Attributes = {"tidegate.source": origin.component, **_server(address)}
    if origin.component == "reply":
        return _named("reply", "send", origin.owner, SpanKind.PRODUCER, attributes)
    if address.startswith("kafka://"):
        return _kafka("receive", "receive", address, SpanKind.CONSUMER, attributes | {"tidegate.owner": origin.owner})
    parts = urlsplit(address)
    http = parts.scheme in ("http", "https")
    if http:
        attributes |= {"http.request.method": "POST", "url.scheme": parts.scheme, "url.path": parts.path or "/"}
    kind = SpanKind.CONSUMER if origin.pulls else SpanKind.SERVER
    return _named("receive", "receive", origin.owner, kind, attributes, http)


def of_send_context(send_context: SendContext) -> Kind:
    """Spans of attempts: `deliver TRIGGER` (for a Kafka sink `send TOPIC`) and `dead_letter TRIGGER`."""
    address = send_context.address()
    attributes: Attributes = _server(address)
    if address.startswith("kafka://"):
        operation = "send" if send_context.operation == "deliver" else send_context.operation
        return _kafka(
            operation, "send", address, SpanKind.PRODUCER, attributes | {"tidegate.owner": send_context.owner}
        )
    parts = urlsplit(address)
    http = parts.scheme in ("http", "https")
    if http:
        attributes |= {"http.request.method": "POST", "url.full": address.partition("?")[0]}
    attributes["messaging.destination.subscription.name"] = send_context.owner
    found = _named(
        send_context.operation,
        "send",
        send_context.broker,
        SpanKind.CLIENT if http else SpanKind.PRODUCER,
        attributes,
        http,
    )
    return Kind(f"{send_context.operation} {send_context.owner}", found.kind, found.attributes, http)


def _named(
    operation: str, type: str, destination: str, kind: SpanKind, attributes: Attributes, http: bool = False
) -> Kind:
    return Kind(
        f"{operation} {destination}",
        kind,
        {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": type,
            "messaging.destination.name": destination,
            **attributes,
        },
        http,
    )


def _kafka(operation: str, type: str, address: str, kind: SpanKind, attributes: Attributes) -> Kind:
    topic = address.removeprefix("kafka://").partition("/")[2]
    named = _named(operation, type, topic, kind, attributes)
    shared = {**named.attributes, "messaging.system": "kafka"}
    if "{" in topic:
        shared["messaging.destination.template"] = shared.pop("messaging.destination.name")
    return Kind(named.name, kind, shared)


def _server(address: str) -> Attributes:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return {}
    found: Attributes = {}
    if host and parts.scheme in ("http", "https", "kafka"):
        found["server.address"] = host
        if port or parts.scheme != "kafka":
            found["server.port"] = port or (443 if parts.scheme == "https" else 80)
    return found


def of_event(event: Event) -> Attributes:
    """The attributes of a span for one event."""
    attributes, found = event.attributes, Attributes()
    for name, spellings in _CLOUDEVENTS:
        for spelling in spellings:
            value = attributes.get(spelling)
            if type(value) is str:
                found[name] = value
                break
    if "cloudevents.event_id" in found:
        found["messaging.message.id"] = found["cloudevents.event_id"]
    if event.data is not None:
        found["messaging.message.body.size"] = len(event.data)
    return found | of_sender(event)


def of_sender(event: Event) -> Attributes:
    """The attributes for who sent an event, if its ingress knows."""
    who = event.identity
    return {} if who is None or who is ANONYMOUS else {"user.id": who.subject}
