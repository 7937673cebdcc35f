"""The bindings of the transports that CloudEvents has a specification for, with that specification's own values."""

from __future__ import annotations

from gateway_core.contract.component import Binding

HTTP = Binding(
    "http",
    b"ce-",
    True,
    "HTTP binding 1.0.2",
    {"mode": "3", "attributes": "3.1.3", "structured": "3.2"},
    folds_case=True,
    batches=True,
    answers=True,
    empty_is_none=True,
)
KAFKA = Binding(
    "kafka", b"ce_", False, "Kafka binding 1.0.3", {"mode": "3", "attributes": "3.2.3", "structured": "3.3.2"}
)


def rule(binding: Binding, about: str) -> str:
    """The specification of a binding, and its section that is about this (`Binding.sections`)."""
    section = binding.sections.get(about)
    return f"CloudEvents {binding.title or f'{binding.name} binding'}" + (f", section {section}" if section else "")


def own_headers(binding: Binding) -> frozenset[bytes]:
    """Headers of the transport that look like attributes but are not."""
    return binding.reserved | {n for n in binding.trace or () if n.startswith(binding.prefix.lower())}
