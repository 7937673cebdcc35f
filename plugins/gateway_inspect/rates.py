"""The difference between two statuses: rates, and durations from their histograms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gateway_core.contract.record import Record
from gateway_core.contract.status import (
    BOUNDS_S,
    BrokerStatus,
    DeliveryStatus,
    Entry,
    GatewayStatus,
    ReaderStatus,
    TriggerStatus,
)

SORTS = ("rate", "lag", "name")

_COUNTS = {
    "brokers": ("accepted", "refused", "unrouted"),
    "triggers": ("delivered", "attempts", "retried", "dead_lettered"),
    "bridges": ("delivered", "attempts", "retried", "dead_lettered", "refused"),
}


def between(before: GatewayStatus, after: GatewayStatus, seconds: float, sort: str = "rate") -> dict[str, Any]:
    """Rates per second of every broker, trigger, bridge and reader (Spark), with the median and 99th percentile of
    their durations: accepting (brokers), an attempt (triggers, bridges). None if nothing happened, or metrics are
    off. `success` is the part of the attempts that delivered, None if none ended."""
    found: dict[str, Any] = {"seconds": round(seconds, 3), "ready": after.ready}
    for section in _COUNTS:
        old = {entry.name: entry for entry in before.entries(section)}
        entries = [_entry(section, old.get(entry.name), entry, seconds) for entry in after.entries(section)]
        found[section] = sorted(entries, key=lambda e: _order(e, sort))
    was = {trigger.name: trigger.reader for trigger in before.triggers}
    readers = [_reader(t.name, t.reader, was.get(t.name), seconds) for t in after.triggers if t.reader is not None]
    found["readers"] = sorted(readers, key=lambda e: _order(e, sort))
    return found


def _reader(name: str, reader: ReaderStatus, old: ReaderStatus | None, seconds: float) -> dict[str, Any]:
    facts = {fact: reader.details.get(fact) for fact in ("lags", "batch_s", "parts", "stalled_s")}
    rates = {f"{count}_per_s": _rate(old, reader, count, seconds) for count in ("rows", "quarantined")}
    return {"name": name, "state": reader.state, "lag": reader.lag, **facts, **rates}


def _entry(section: str, old: Entry | None, new: Entry, seconds: float) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": new.name, "state": new.condition or ("ready" if new.ready else "not")}
    if isinstance(new, TriggerStatus):
        entry["broker"] = new.broker
    for count in _COUNTS[section]:
        entry[f"{count}_per_s"] = _rate(old, new, count, seconds)
    if isinstance(new, DeliveryStatus):
        delivered = entry["delivered_per_s"]
        failed = _failed_per_s(old, new, seconds)
        ended = delivered + failed
        entry |= {"failed_per_s": failed, "success": round(delivered / ended, 4) if ended else None}
        entry |= {"in_flight": new.in_flight, "waiting": new.waiting, "lag": new.lag}
    buckets = _new_in(_timed(old), _timed(new))
    entry["p50_s"], entry["p99_s"] = quantile(buckets, 0.5), quantile(buckets, 0.99)
    return entry


def _rate(old: Record | None, new: Record, count: str, seconds: float) -> float:
    # an entry that is new since the previous status, or was restarted, has counted from zero
    now, base = getattr(new, count), getattr(old, count) if old is not None else 0
    return round((now - base if now >= base else now) / seconds, 3) if seconds > 0 else 0.0


def failed(entry: DeliveryStatus) -> int:
    """Attempts that ended and did not deliver. A sink that reads the channel by itself makes none."""
    return max(0, entry.attempts - entry.in_flight - entry.delivered)


def _failed_per_s(old: Entry | None, new: DeliveryStatus, seconds: float) -> float:
    if seconds <= 0:
        return 0.0
    before = old if isinstance(old, DeliveryStatus) and old.attempts <= new.attempts else None
    # an attempt whose reply is being published has ended but not delivered, for a moment
    return round(max(0, failed(new) - (failed(before) if before else 0)) / seconds, 3)


def _timed(entry: Entry | None) -> Sequence[int]:
    """The durations of its accepts or attempts, in buckets."""
    durations = entry.accept if isinstance(entry, BrokerStatus) else None
    if isinstance(entry, DeliveryStatus):
        durations = entry.attempt
    return durations.buckets if durations is not None else ()


def _new_in(old: Sequence[int], new: Sequence[int]) -> Sequence[int]:
    if not old or sum(old) > sum(new):
        return new
    return [n - o for o, n in zip(old, new, strict=True)]


def quantile(buckets: Sequence[int], q: float) -> float | None:
    """The `q` quantile of the durations in seconds, interpolated within its bucket; None if there are no durations.
    Durations above the last bound count as that bound."""
    total = sum(buckets)
    if total <= 0:
        return None
    rank, seen = q * total, 0
    for (low, high), count in zip(pairwise((0.0, *BOUNDS_S)), buckets, strict=False):
        if count and seen + count >= rank:
            return round(low + (high - low) * (rank - seen) / count, 6)
        seen += count
    return BOUNDS_S[-1]


def _order(entry: dict[str, Any], sort: str) -> tuple[float, str]:
    if sort == "name":
        return 0.0, entry["name"]
    if sort == "lag":
        return -float(entry.get("lag") or 0), entry["name"]
    rate = next((entry[r] for r in ("accepted_per_s", "delivered_per_s", "rows_per_s") if r in entry), 0.0)
    return -float(rate), entry["name"]
