"""The bindings of the transports that CloudEvents has a specification for, with that specification's own values."""

from __future__ import annotations

from gateway_core.contract.component import Binding

HTTP = Binding(
    *("http", b"ce-", True, "HTTP binding 1.0.2", {"mode": "3", "attributes": "3.1.3", "structured": "3.2"}),
    folds_case=True,
    batches=True,
    answers=True,
    empty_is_none=True,
)
KAFKA = Binding(
    *("kafka", b"ce_", False, "Kafka binding 1.0.3", {"mode": "3", "attributes": "3.2.3", "structured": "3.3.2"})
)
