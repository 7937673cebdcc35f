"""The difference between two status documents: rates, and durations from their histograms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gateway_core.pipeline.histogram import BOUNDS_S

SORTS = ("rate", "lag", "name")

_COUNTS = {
    "brokers": ("accepted", "refused", "unrouted"),
    "triggers": ("delivered", "attempts", "retried", "dead_lettered"),
    "bridges": ("delivered", "attempts", "retried", "dead_lettered", "refused"),
}
_AS_THEY_ARE = ("in_flight", "waiting", "lag")
_TIMED = {"brokers": "accept", "triggers": "attempt", "bridges": "attempt"}


def between(before: dict[str, Any], after: dict[str, Any], seconds: float, sort: str = "rate") -> dict[str, Any]:
    """Rates per second of every broker, trigger, bridge and reader (Spark), with the median and 99th percentile of
    their durations: accepting (brokers), an attempt (triggers, bridges). None if nothing happened, or metrics are
    off."""
    found: dict[str, Any] = {"seconds": round(seconds, 3), "ready": after["ready"]}
    for section in _COUNTS:
        old = {entry["name"]: entry for entry in before[section]}
        entries = [_entry(section, old.get(entry["name"]), entry, seconds) for entry in after[section]]
        found[section] = sorted(entries, key=lambda e: _order(e, sort))
    was = {t["name"]: t.get("reader") for t in before["triggers"]}
    readers = [_reader(t, was.get(t["name"]), seconds) for t in after["triggers"] if t.get("reader")]
    found["readers"] = sorted(readers, key=lambda e: _order(e, sort))
    return found


def _reader(trigger: dict[str, Any], old: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
    reader = trigger["reader"]
    read = ("state", "lag", "lags", "batch_s", "parts", "stalled_s")
    counts = {f"{name}_per_s": _rate(old, reader, name, seconds) for name in ("rows", "quarantined")}
    return {"name": trigger["name"], **{name: reader.get(name) for name in read}, **counts}


def _entry(section: str, old: dict[str, Any] | None, new: dict[str, Any], seconds: float) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": new["name"], "state": new.get("condition") or ("ready" if new["ready"] else "not")}
    if section == "triggers":
        entry["broker"] = new["broker"]
    for count in _COUNTS[section]:
        entry[f"{count}_per_s"] = _rate(old, new, count, seconds)
    entry.update((name, new.get(name)) for name in _AS_THEY_ARE if name in new)
    timed = _TIMED[section]
    buckets = _new_in((old or {}).get(timed), new.get(timed))
    entry["p50_s"], entry["p99_s"] = quantile(buckets, 0.5), quantile(buckets, 0.99)
    return entry


def _rate(old: dict[str, Any] | None, new: dict[str, Any], count: str, seconds: float) -> float:
    # an entry that is new since the previous document, or was restarted, has counted from zero
    base = (old or {}).get(count) or 0
    now = new.get(count) or 0
    return round((now - base if now >= base else now) / seconds, 3) if seconds > 0 else 0.0


def _new_in(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Sequence[int]:
    if new is None:
        return []
    if old is None or sum(old["buckets"]) > sum(new["buckets"]):
        return list(new["buckets"])
    return [n - o for o, n in zip(old["buckets"], new["buckets"], strict=True)]


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
