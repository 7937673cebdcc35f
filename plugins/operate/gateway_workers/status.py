"""The status of all workers together."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gateway_core.contract.status import AnEntry, GatewayStatus, with_own_reader


def merge(mine: GatewayStatus, others: Iterable[GatewayStatus]) -> GatewayStatus:
    """The status of all workers. It has the entries that `mine` has: during a reload, others may have more."""
    merged = mine
    for other in others:
        merged = merged.merged(other)
    return replace(
        merged,
        brokers=_known(merged.brokers, mine.brokers),
        triggers=_known(merged.triggers, mine.triggers),
        bridges=_known(merged.bridges, mine.bridges),
    )


def _known(entries: list[AnEntry], known: list[AnEntry]) -> list[AnEntry]:
    mine = {entry.name: entry for entry in known}
    return [with_own_reader(mine[entry.name], entry) for entry in entries if entry.name in mine]
