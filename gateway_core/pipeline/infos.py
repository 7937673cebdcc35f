"""Reads the state of components for the status. One that raises must not hide that of the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ..contract.capabilities import Delaying, Faulty, Watched, offers
from ..contract.component_errors import text_of_error
from ..contract.interfaces import Feed, ReadingSink
from ..contract.moments import stamped
from ..contract.options import redacted
from ..contract.status import ReaderStatus, SourceStatus
from ..delivery import Subscription
from .intake import BoundSource
from .metering import Meter

_OF_SUBSCRIPTION = (
    "delivered",
    "attempts",
    "retried",
    "dead_lettered",
    "dead_lettered_by_stage",
    "filter_errors",
    "unreadable",
    "in_flight",
    "blocked",
)


def source_states(bound_sources: Iterable[BoundSource]) -> list[SourceStatus]:
    """The state of sources that report it, and of sources that failed."""
    found = []
    for bound_source in bound_sources:
        if bound_source.alone and not bound_source.open:
            continue  # another worker runs it
        source, fault = bound_source.source, bound_source.fault
        if isinstance(source, Watched):
            try:
                state = SourceStatus.read(redacted({"address": source.address, **source.info()}))
            except Exception as e:
                state = SourceStatus(source.address, f"the source can't tell its state: {text_of_error(e)}")
            found.append(replace(state, error=fault) if fault else state)
        elif fault:
            found.append(SourceStatus(source.address, fault))
    return found


def source_errors(bound_sources: Iterable[BoundSource]) -> dict[int, str]:
    """Why sources do not work, by their number."""
    found = {}
    for number, bound_source in enumerate(bound_sources):
        for state in source_states([bound_source]):
            if state.error:
                found[number] = state.error
    return found


def addresses(bound_sources: Iterable[BoundSource]) -> list[str]:
    """The addresses of sources; for one that runs in another worker, if known before its start."""
    found = [getattr(bound_source.source, "address", "") for bound_source in bound_sources]
    return [address for address in found if address]


def reader_state(sink: ReadingSink) -> ReaderStatus:
    """`ReadingSink.state`."""
    try:
        return ReaderStatus.read({"state": "unknown", **sink.state()})
    except Exception as e:
        return ReaderStatus("unknown", f"the reader can't tell its state: {text_of_error(e)}")


def delivery_facts(s: Subscription, meter: Meter | None) -> dict[str, Any]:
    """What the statuses of a trigger and of a bridge have in common (`DeliveryStatus`)."""
    facts: dict[str, Any] = {name: getattr(s, name) for name in _OF_SUBSCRIPTION}
    facts.update(waiting=s.held - s.in_flight, last_error=s.failures.last)
    if (failing := s.longest_failing()) is not None:
        until = s.retried_until_ns(failing)
        facts.update(retried_until=None if until is None else stamped(until), longest_wait_s=s.longest_wait_s(failing))
    return {**facts, "attempt": meter.attempt.status(), "delivery": meter.delivery.status()} if meter else facts


def delay_facts(feed: Feed) -> dict[str, Any]:
    """What the status of a trigger says about events that wait until they are due."""
    if not offers(feed, Delaying):
        return {}
    due_ns = feed.oldest_due_ns()
    if due_ns is None:
        return {"delayed": feed.delayed}
    return {"delayed": feed.delayed, "delayed_until": stamped(due_ns), "delayed_late_s": round(feed.late_s(), 3)}


def held_while_down(s: Subscription) -> str:
    """Why a subscription with `hold_while_down` delivers nothing now."""
    return f"its events are held while the subscriber gives no answer: {s.failures.last}"


def lag_of(feed: Feed) -> int | None:
    """`Feed.lag`."""
    try:
        lag = feed.lag()
        return None if lag is None else int(lag)
    except Exception:
        return None


def fault_of(component: object) -> str | None:
    """`Faulty.fault`, of a feed or sink that has it."""
    try:
        return component.fault if offers(component, Faulty) else None
    except Exception as e:
        return f"it can't tell whether it works: {text_of_error(e)}"
