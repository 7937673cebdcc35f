"""The observer: counters and one histogram.

Names and attributes follow OpenTelemetry's semantic conventions for messaging if these define one
(`messaging.client.consumed.messages`, `.sent.messages`, `.operation.duration`), and are `tidegate.*` otherwise. The
config bounds the attribute values: names of brokers and triggers, outcomes, status codes.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.metrics import MeterProvider

from gateway_core import __version__
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Observer, Outcome

Attributes = dict[str, str]

SYSTEM = "tidegate"
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class OtelObserver(Observer):
    """Records metrics with instruments of the given provider."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter("tidegate", __version__)
        self._accepted = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Events that were accepted into stable storage."
        )
        self._refused = meter.create_counter("tidegate.events.refused", "{event}", "Inputs that were refused.")
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Attempts to deliver an event, by outcome."
        )
        self._delivered = meter.create_counter("tidegate.events.delivered", "{event}", "Events that were delivered.")
        self._retried = meter.create_counter(
            "tidegate.events.retried", "{event}", "Attempts that failed and can be retried."
        )
        self._dead = meter.create_counter("tidegate.events.dead_lettered", "{event}", "Events in the dead letter.")
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of delivery attempts.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        # attribute sets are created once: these methods run for every event
        self._by_broker: dict[str, Attributes] = {}
        self._by_trigger: dict[str, Attributes] = {}
        self._by_refusal: dict[tuple[str, int], Attributes] = {}
        self._by_attempt: dict[tuple[str, str, int | None], Attributes] = {}

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        attributes = self._by_broker.get(broker)
        if attributes is None:
            attributes = self._by_broker[broker] = {**_operation("receive"), "messaging.destination.name": broker}
        self._accepted.add(len(events), attributes)

    def refused(self, broker: str, error: Refused) -> None:
        key = (broker, error.status)
        attributes = self._by_refusal.get(key)
        if attributes is None:
            attributes = self._by_refusal[key] = {
                **_operation("receive"),
                "messaging.destination.name": broker,
                "error.type": str(error.status),
            }
        self._refused.add(1, attributes)

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        word = "delivered" if outcome.delivered else "retry" if outcome.retry else "failed"
        key = (trigger, word, outcome.code)
        attributes = self._by_attempt.get(key)
        if attributes is None:
            attributes = self._by_attempt[key] = {**self._of_trigger(trigger), "tidegate.outcome": word}
            if not outcome.delivered:
                # the reason is free text, so it would be an unbounded attribute
                attributes["error.type"] = str(outcome.code) if outcome.code is not None else "_OTHER"
        self._sent.add(1, attributes)
        self._duration.record(seconds, attributes)
        if outcome.delivered:
            self._delivered.add(1, self._of_trigger(trigger))
        elif outcome.retry:
            self._retried.add(1, self._of_trigger(trigger))

    def dead_lettered(self, trigger: str, event: Event) -> None:
        self._dead.add(1, self._of_trigger(trigger))

    def _of_trigger(self, trigger: str) -> Attributes:
        attributes = self._by_trigger.get(trigger)
        if attributes is None:
            attributes = self._by_trigger[trigger] = {
                **_operation("send"),
                "messaging.destination.subscription.name": trigger,
            }
        return attributes


def _operation(name: str) -> Attributes:
    return {"messaging.system": SYSTEM, "messaging.operation.name": name, "messaging.operation.type": name}
