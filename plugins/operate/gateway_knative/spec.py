"""What the `spec` of a Knative Broker and Trigger (eventing.knative.dev/v1) means in our vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.config_node import Node, Place
from gateway_core.contract.faults import near
from gateway_core.contract.model_errors import explain

from . import durations
from .destinations import Objects, destination
from .part import Part, mapping

LISTEN = "${TIDEGATE_LISTEN:-127.0.0.1:8080}"
ANONYMOUS = "${TIDEGATE_ANONYMOUS:-null}"
"""The address of the ingress of brokers from manifests."""
BROKER_LABEL = "eventing.knative.dev/broker"
ORDER_ANNOTATION = "kafka.eventing.knative.dev/delivery.order"

_ORDERS = {"ordered": "partition", "unordered": "unordered"}
_AS_THEY_ARE = {"retry": "retry", "backoffPolicy": "backoff"}
_DURATIONS = {"backoffDelay": "backoff_delay_s", "timeout": "timeout_s", "retryAfterMax": "retry_after_max_s"}
_DELIVERY = ("retry", "backoffPolicy", "backoffDelay", "timeout", "retryAfterMax", "deadLetterSink")
_FORMAT = "map the subscriber's `ref` in `refs` to `http` with a `codec` of that mode"


@dataclass
class Meaning:
    """An entry of `brokers` or `triggers`: its keys, their defaults, and the paths in it that already have a fault."""

    keys: dict[str, Node] = field(default_factory=dict)
    defaults: dict[str, Node] = field(default_factory=dict)
    bad: set[Place] = field(default_factory=set)


@dataclass(frozen=True)
class Subject:
    """A manifest being read: `top` is the whole document, `name` its name in Kubernetes."""

    top: Part
    namespace: str
    name: str
    objects: Objects


def section_name(namespace: str, name: str) -> str:
    """The name of a manifest's broker or trigger in a config: its own name in the namespace `default`, else with the
    namespace in front. It depends on nothing else, so that no other file can rename a broker with events in its log."""
    return name if namespace == "default" else f"{namespace}.{name}"


def ingress_path(namespace: str, name: str) -> str:
    """The path of a broker's ingress, as in Knative."""
    return f"/{namespace}/{name}"


def broker(subject: Subject) -> Meaning:
    """Converts a Broker. Without `ingress` in the config it gets Knative's address."""
    meaning = Meaning()
    spec = subject.top.part("spec")
    if spec is not None:
        spec.only(("config", "delivery"))
        if spec.has("config"):
            own = (
                f"`brokers: {{{section_name(subject.namespace, subject.name)}: {{channel: …}}}}` chooses a channel here"
            )
            spec.warn("config", "it only works in Kubernetes", own)
        _delivery(spec, subject, meaning)
    meaning.defaults["ingress"] = _ingress(subject)
    return meaning


def trigger(subject: Subject) -> Meaning:
    """Converts a Trigger."""
    meaning = Meaning()
    spec = subject.top.part("spec")
    if spec is None:
        spec = Part(
            Node({}, subject.top.node.file, subject.top.line("spec")), subject.top.at("spec"), subject.top.notes
        )
    spec.only(("broker", "brokerRef", "filter", "filters", "subscriber", "delivery"))
    _broker_of(spec, subject, meaning)
    if rule := spec.part("filter"):
        rule.only(("attributes",))
        if rule.has("attributes"):
            meaning.keys["filter"] = rule.moved("attributes")
    if spec.has("filters"):
        meaning.keys["filters"] = spec.moved("filters")
    _sink(spec, "subscriber", "subscriber", subject, meaning)
    if not spec.has("subscriber"):
        spec.fault("subscriber", "the key `subscriber` is missing", "add `subscriber: {uri: http://HOST/PATH}`")
    _delivery(spec, subject, meaning)
    _order(subject, meaning)
    return meaning


def _broker_of(spec: Part, subject: Subject, meaning: Meaning) -> None:
    """A trigger's broker is in its own namespace: `spec.broker`, else the label, else `default`."""
    ref = spec.part("brokerRef")
    if ref is not None:
        ref.only(("apiVersion", "kind", "name", "namespace"))
        if spec.has("broker"):
            spec.fault("brokerRef", "`broker` and `brokerRef` exclude each other", "keep one of them")
        name, namespace = ref.text("name"), ref.text("namespace") or subject.namespace
        if name is not None:
            meaning.keys["broker"] = ref.made("name", section_name(namespace, name))
        return
    metadata = subject.top.part("metadata")
    labels = metadata.part("labels") if metadata else None
    for part, key in ((spec, "broker"), (labels, BROKER_LABEL)):
        name = part.text(key) if part else None
        if part and name is not None:
            meaning.keys["broker"] = part.made(key, section_name(subject.namespace, name))
            return
    meaning.defaults["broker"] = spec.made("broker", section_name(subject.namespace, "default"))


def _sink(part: Part, key: str, ours: str, subject: Subject, meaning: Meaning) -> None:
    inner = part.part(key)
    found = destination(inner, subject.objects, subject.namespace) if inner else None
    if found is not None:
        meaning.keys[ours] = found
    elif part.has(key) or key == "subscriber":
        meaning.keys[ours] = part.made(key, None)
        meaning.bad.add((ours,))


def _delivery(spec: Part, subject: Subject, meaning: Meaning) -> None:
    part = spec.part("delivery")
    if part is None:
        return
    part.only(_DELIVERY, {"format": _FORMAT})
    items = {ours: part.moved(key) for key, ours in _AS_THEY_ARE.items() if part.has(key)}
    items |= {ours: node for key, ours in _DURATIONS.items() if (node := _seconds(part, key, ours))}
    if items:
        meaning.keys["delivery"] = mapping(items, part.node.file, part.node.line)
    delay = items.get("backoff_delay_s")
    longest = DeliveryConfig.model_fields["backoff_max_s"].default
    if (
        delay is not None and delay.value > longest
    ):  # Knative has no maximum delay, and the first delay is as configured
        meaning.defaults["delivery"] = mapping({"backoff_max_s": delay}, delay.file, delay.line)
    if part.has("deadLetterSink"):
        _sink(part, "deadLetterSink", "dead_letter", subject, meaning)


def _seconds(part: Part, key: str, ours: str) -> Node | None:
    text = part.text(key)
    if text is None:
        return None
    try:
        value = durations.seconds(text)
    except ValueError as e:
        part.fault(key, f"`{text}` {e}", durations.FORM)
        return None
    try:
        DeliveryConfig.model_validate({ours: value})
    except ValidationError as e:
        (finding,) = explain(e, {ours: value}, DeliveryConfig)
        part.fault(key, f"`{text}` is {value:g} seconds: {finding.message.partition(',')[0]}")
        return None
    return part.made(key, value)


def _order(subject: Subject, meaning: Meaning) -> None:
    """Knative's Kafka broker configures the order of delivery with an annotation."""
    metadata = subject.top.part("metadata")
    annotations = metadata.part("annotations") if metadata else None
    value = annotations.text(ORDER_ANNOTATION) if annotations else None
    if annotations is None or value is None:
        return
    if value not in _ORDERS:
        remedy = near(value, _ORDERS) or "write `ordered` or `unordered`"
        annotations.fault(ORDER_ANNOTATION, f"expected `ordered` or `unordered`, found `{value}`", remedy)
        return
    node = annotations.made(ORDER_ANNOTATION, _ORDERS[value])
    delivery: Mapping[str, Node] = meaning.keys["delivery"].value if "delivery" in meaning.keys else {}
    meaning.keys["delivery"] = mapping({**delivery, "order": node}, node.file, node.line)


def _ingress(subject: Subject) -> Node:
    file, line = subject.top.node.file, subject.top.node.line
    options = {
        "listen": Node(LISTEN, file, line),
        "anonymous": Node(ANONYMOUS, file, line, plain=True),
        "path": Node(ingress_path(subject.namespace, subject.name), file, line),
    }
    http = mapping({"http": mapping(options, file, line)}, file, line)
    return Node([http], file, line)
