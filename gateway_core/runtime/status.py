"""The parts of the status document, and how the documents of several workers become one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from ..config.model import TriggerConfig
from ..contract.condition import Condition
from ..contract.config_node import Place
from ..pipeline.bridge import Bridged
from ..pipeline.broker import Broker
from ..pipeline.infos import addresses, channel_info, source_errors, source_infos

_KEPT = {"uptime_s", "workers", "pid"}


def broker_status(broker: Broker) -> dict[str, Any]:
    """One broker: its condition, addresses, channel and counts."""
    info = channel_info(broker.channel)
    condition = broker.condition(info)
    return {
        "name": broker.name,
        "ready": condition.ready,
        "reason": condition.message,
        "condition": condition.reason,
        "ingress": addresses(broker.bound_sources),
        "sources": source_infos(broker.bound_sources),
        "channel": {"name": broker.channel_name, **info},
        "accepted": broker.channel.appended,
        "refused": broker.refused,
        "unrouted": info.get("unrouted", 0),
        "failed": broker.failed,
        "dead_lettered": broker.dead_letters.written,
        "dead_lettered_by_stage": dict(broker.dead_letters.written_by_stage),
        **(broker.meter.of_accepts() if broker.meter else {}),
    }


def orphan_status(name: str, config: TriggerConfig) -> dict[str, Any]:
    """The status of a trigger whose broker does not exist (yet)."""
    condition = orphan_condition(config)
    zeros = dict.fromkeys(("delivered", "attempts", "retried", "dead_lettered", "in_flight", "waiting", "lag"), 0)
    return {
        "name": name,
        "broker": config.broker,
        "ready": condition.ready,
        "reason": condition.message,
        "condition": condition.reason,
        "subscriber": None,
        "dead_letter": None,
        **zeros,
        "paused": False,
        "blocked": False,
        "last_error": None,
        "filter_errors": 0,
        "reader": None,
    }


def orphan_condition(config: TriggerConfig) -> Condition:
    """The condition of a trigger whose broker does not exist."""
    return Condition(False, f"broker {config.broker!r} does not exist", "BrokerNotFound")


def bridge_condition(bridged: Bridged, running: bool) -> Condition:
    """Whether it is ready (an event that comes now can be carried to its sink), else why not."""
    s = bridged.bridge.subscription
    if fault := next(iter(bridged.bridge.faults.values()), ""):
        return Condition(False, fault, "ComponentFailed")
    if s.blocked:
        return Condition(False, s.failures.last or "blocked", "DeadLetterFails")
    if s.failures.many:
        return Condition(False, s.failures.last or "failing", "SinkFails")
    if s.short:
        return Condition(False, s.failures.last or "this machine is short of resources", "OutOfResources")
    if not running:
        return Condition(False, "not started", "NotStarted")
    error = source_errors([bridged.bound_source]).get(0)
    return Condition(False, error, "SourceFails") if error else Condition(True, "", "Carrying")


def takes_events(bridged: Bridged, running: bool) -> bool:
    """Whether the bridge's source works; the state of its sink does not matter here."""
    return running and not source_errors([bridged.bound_source]) and "sink" not in bridged.bridge.faults


def start_failure(failed: Mapping[Place, str], section: str, name: str) -> str:
    """Why a part of this entry could not be started by the last reload (`failed`), "" if all of it runs. A dead letter
    that could not be replaced does not count: the previous one is still in use."""
    mine = (text for place, text in failed.items() if place[:2] == (section, name) and place[2:] != ("dead_letter",))
    return next(mine, "")


def with_failure(entry: dict[str, Any], failure: str) -> dict[str, Any]:
    """Marks an entry of a status document if a part of it could not be started."""
    if failure:
        entry.update(ready=False, reason=failure, condition="StartFailed")
    return entry


def bridge_status(bridged: Bridged, running: bool) -> dict[str, Any]:
    """One bridge: its condition, ends and counts."""
    bridge, s = bridged.bridge, bridged.bridge.subscription
    sources = source_infos([bridged.bound_source])
    condition = bridge_condition(bridged, running)
    return {
        "name": bridged.name,
        "ready": condition.ready,
        "reason": condition.message,
        "condition": condition.reason,
        "source": " ".join(addresses([bridged.bound_source])),
        "sources": sources,
        "sink": s.sink.address,
        "dead_letter": bridged.dead_letter.address if bridged.dead_letter else None,
        "accepted": bridge.accepted,
        "unwanted": bridge.unwanted,
        "delivered": s.delivered,
        "attempts": s.attempts,
        "retried": s.retried,
        "refused": bridge.refused,
        "failed": bridge.failed,
        "dead_lettered": s.dead_lettered,
        "in_flight": s.in_flight,
        "waiting": s.held - s.in_flight,
        "lag": bridge.lag(),
        "blocked": s.blocked,
        "last_error": s.failures.last,
        "filter_errors": s.filter_errors,
        "dead_lettered_by_stage": s.dead_lettered_by_stage,
        **(bridged.meter.of_deliveries() if bridged.meter else {}),
    }


_COUNTS = {
    *("accepted", "refused", "unrouted", "failed", "delivered", "attempts", "retried", "dead_lettered", "unwanted"),
    *("dead_lettered_by_stage", "accept", "attempt", "delivery", "filter_errors"),
}
"""Counters: they only grow."""


_READER_COUNTS = {"rows", "quarantined", "restarts"}


class Earlier:
    """The counts of triggers, bridges and dead letters that a reload has replaced by others of the same name. Their
    successors continue from there."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], dict[str, Any]] = {}
        self._ending: list[tuple[str, Callable[[], dict[str, Any]]]] = []

    def keep(self, section: str, entry: Mapping[str, Any]) -> None:
        """Adds what this entry of a status document has counted."""
        counts = {name: value for name, value in entry.items() if name in _COUNTS}
        if reader := entry.get("reader"):
            counts["reader"] = {name: reader[name] for name in _READER_COUNTS if name in reader}
        kept = self._counts.setdefault((section, entry["name"]), {})
        _add(kept, copy.deepcopy(counts))

    def follow(self, section: str, read: Callable[[], dict[str, Any]]) -> Callable[[], None]:
        """The same for a part that is still finishing. Call the result once it has finished."""
        ending = (section, read)
        self._ending.append(ending)

        def ended() -> None:
            self._ending.remove(ending)
            self.keep(section, read())

        return ended

    def add_to(self, section: str, entry: dict[str, Any]) -> dict[str, Any]:
        """An entry of a status document, with what its predecessors counted."""
        added = Earlier()
        added._counts = {k: copy.deepcopy(v) for k, v in self._counts.items() if k == (section, entry["name"])}
        for of, read in self._ending:
            if of == section and (other := read())["name"] == entry["name"]:
                added.keep(of, other)
        for counts in added._counts.values():
            _add(entry, counts)
        return entry

    def forget(self, wanted: Callable[[str, str], bool]) -> None:
        """Drops the counts of entries that no longer exist."""
        self._counts = {key: counts for key, counts in self._counts.items() if wanted(*key)}


def counts_of(status: dict[str, Any]) -> dict[str, Any]:
    """The counts of a worker that ended, so that the totals do not fall."""
    kept: dict[str, Any] = {"ready": True, "config": {"error": None}, "processes": []}
    kept["observers"] = [{**entry, "last_error": None} for entry in status["observers"]]
    for section in ("brokers", "triggers", "bridges"):
        kept[section] = [
            {"name": entry["name"], **{k: v for k, v in entry.items() if k in _COUNTS}}
            for entry in status[section]
            if not entry.get("reader")
        ]
    return kept


def merge(mine: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
    """Merges the documents of all workers: counts are added, conditions must hold for each, the first reason is
    shown."""
    for other in others:
        mine["ready"] = mine["ready"] and other["ready"]
        mine["processes"] += other["processes"]
        mine["config"]["error"] = mine["config"]["error"] or other["config"]["error"]
        for mine_too, theirs_too in zip(mine["observers"], other["observers"], strict=False):
            _add(mine_too, theirs_too)
        for section in ("brokers", "triggers", "bridges"):
            theirs = {entry["name"]: entry for entry in other[section]}
            for entry in mine[section]:
                # a reader runs in one worker only, and counts for all
                if entry["name"] in theirs and not entry.get("reader"):
                    _add(entry, theirs[entry["name"]])
    return mine


def _add(entry: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(entry.get(key), dict):
            _add(entry[key], value)
        elif key not in entry:  # a shard of the other worker
            entry[key] = value
        elif key == "ready" or key == "writable":
            if entry[key] and not value and "condition" in other:
                entry["condition"] = other["condition"]
            entry[key] = entry[key] and value
        elif key == "buckets":
            entry[key] = [mine + theirs for mine, theirs in zip(entry[key], value, strict=True)]
        elif key == "sources":
            _add_sources(entry[key], value)
        elif key in ("paused", "blocked", "reason", "error", "last_error"):
            entry[key] = entry[key] or value
        elif isinstance(value, int | float) and not isinstance(value, bool) and key not in _KEPT:
            entry[key] = (entry.get(key) or 0) + value


def _add_sources(mine: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """The same source in several workers is one; another may run in one worker only."""
    for theirs in others:
        same = next((info for info in mine if info.get("address") == theirs.get("address")), None)
        if same is None:
            mine.append({**theirs})
        else:
            _add(same, theirs)
