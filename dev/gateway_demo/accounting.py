"""Checks that nothing is missing: compares the responses that the sender got with what the subscriber, the files and
the table hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway_core.contract.status import GatewayStatus

from . import flights
from .sender import Ledger
from .subscriber import undeliverable


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the result: where, the sum, and whether it adds up."""

    where: str
    text: str
    ok: bool


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What Spark found: (id, SHA-256 of the data, shard, position) of every row."""

    rows: Sequence[tuple[str, str, int, int]]


def ids_in(file: Path, key: str = "") -> list[str]:
    """The ids of the events in a file of JSON lines; `key` where the event is a part of the line."""
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [(line[key] if key else line)["id"] for line in lines]


def check_all(
    ledger: Ledger,
    status: GatewayStatus,
    subscriber: Mapping[str, tuple[int, int, str]],
    dead: Sequence[str],
    cancelled: Sequence[str],
    facts: TableFacts,
) -> list[Check]:
    """All checks."""
    return [
        *_ingress(ledger, status),
        *_late(ledger, subscriber, dead),
        *_cancelled(ledger, cancelled),
        *table(ledger, facts),
    ]


def _ingress(ledger: Ledger, status: GatewayStatus) -> Iterator[Check]:
    accepted, refused = len(ledger.accepted), len(ledger.refused)
    yield Check(
        "ingress",
        f"{ledger.sent:,} sent = {accepted:,} accepted + {refused:,} refused",
        ledger.sent == accepted + refused and not ledger.surprises,
    )
    without = sum(e.without_subject for e in ledger.accepted.values())
    yield Check(
        "ingress", f"{without:,} rows without a tail number came in without their empty subject", not ledger.refused
    )
    broker = status.brokers[0]
    again = f" ({len(ledger.resent)} resent after a lost connection)" if ledger.resent else ""
    yield Check(
        "ingress",
        f"the gateway counted {broker.accepted:,} accepted and {broker.refused:,} refused{again}",
        broker.accepted >= accepted if ledger.resent else (broker.accepted, broker.refused) == (accepted, refused),
    )


def _late(ledger: Ledger, subscriber: Mapping[str, tuple[int, int, str]], dead: Sequence[str]) -> Iterator[Check]:
    matching = ledger.of_type(flights.LATE)
    delivered = {id for id, (_, accepted, _) in subscriber.items() if accepted}
    dead_set = set(dead)
    yield Check(
        "late",
        f"{len(matching):,} matching = {len(delivered):,} delivered + {len(dead):,} dead-lettered",
        delivered | dead_set == matching and not delivered & dead_set and len(dead) == len(dead_set),
    )
    attempts = sum(row[0] for row in subscriber.values())
    yield Check(
        "late",
        f"dead-lettered = those that the subscriber never accepts; {attempts:,} attempts in total",
        dead_set == {id for id in matching if undeliverable(id)} and attempts >= len(matching),
    )
    changed = [id for id in delivered & matching if subscriber[id][2] != ledger.accepted[id].digest]
    yield Check("late", f"{len(delivered):,} payloads at the subscriber, {len(changed)} not byte for byte", not changed)


def _cancelled(ledger: Ledger, cancelled: Sequence[str]) -> Iterator[Check]:
    matching = ledger.of_type(flights.CANCELLED)
    yield Check(
        "cancelled",
        f"{len(matching):,} matching = {len(cancelled):,} delivered into the file",
        set(cancelled) == matching and len(cancelled) == len(matching),
    )


def table(ledger: Ledger, table: TableFacts) -> Iterator[Check]:
    """The checks of the table: every accepted event once, byte for byte."""
    rows = len(table.rows)
    extra = len(ledger.resent)
    yield Check(
        "table", f"{rows:,} rows = {len(ledger.accepted):,} accepted", 0 <= rows - len(ledger.accepted) <= extra
    )
    places = {(shard, position) for _, _, shard, position in table.rows}
    yield Check("table", f"{len(places):,} positions in the log, each in the table once", len(places) == rows)
    missing = ledger.accepted.keys() - {row[0] for row in table.rows}
    foreign = {row[0] for row in table.rows} - ledger.accepted.keys() - ledger.resent
    yield Check("table", f"{len(missing)} ids missing, {len(foreign)} that nobody sent", not missing and not foreign)
    known = ledger.accepted
    changed = sum(1 for id, digest, _, _ in table.rows if id in known and known[id].digest != digest)
    yield Check("table", f"{rows:,} payloads in the table, {changed} not byte for byte", not changed)
