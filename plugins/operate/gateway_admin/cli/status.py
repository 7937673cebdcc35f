"""`tidegate status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gateway_api.client.running import connected, fetch_document, read_status
from gateway_terminal.status_line import headline
from gateway_terminal.tables import TableRows, print_table

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import OK
from gateway_core.contract.one_line import one_line
from gateway_core.contract.record import Record
from gateway_core.contract.status import DeliveryStatus, Entry, GatewayStatus, TriggerStatus


def show_status(admin: str | None, data_dir: Path | None, *, as_json: bool) -> int:
    """Shows the status. Returns the exit code."""
    with connected(admin, data_dir) as (url, http):
        document = fetch_document(url, http)
    if as_json:
        common.print_json(document)
        return OK
    status = read_status(url, document)
    print(headline(status))
    for title, columns, rows in tables(status):
        print()
        print_table(title, columns, rows)
    return OK


def tables(status: GatewayStatus) -> Iterator[TableRows]:
    """The tables of all sections with entries."""
    if brokers := status.brokers:
        counts = ["accepted", "refused", "unrouted"]
        if any(b.deduplicate_window_s is not None for b in brokers):
            counts[1:1] = ["duplicates", "conflicts", "keys"]
        rows = [[*_condition(b), " ".join(b.ingress), b.channel.name, *_texts(b, *counts)] for b in brokers]
        columns = ["broker", "ready", "ingress", "channel", *counts]
        yield _with_reasons(("Brokers", columns, rows), brokers)
    if triggers := status.triggers:
        counted = ("delivered", "attempts", "retried", "dead_lettered", "in_flight", "lag")
        rows = [[*_condition(t), t.broker, t.subscriber or "", *_texts(t, *counted)] for t in triggers]
        columns = ["trigger", "ready", "broker", "subscriber"]
        columns += ["delivered", "attempts", "retried", "dead", "in flight", "lag"]
        yield _with_reasons(_with_retries(_with_delays(("Triggers", columns, rows), triggers), triggers), triggers)
        yield from _readers(triggers)
    if bridges := status.bridges:
        numbers = ("delivered", "refused", "failed", "dead_lettered")
        rows = [[*_condition(b), b.source, b.sink, *_texts(b, *numbers)] for b in bridges]
        columns = ["bridge", "ready", "source", "sink", "delivered", "refused", "failed", "dead"]
        yield _with_reasons(_with_retries(("Bridges", columns, rows), bridges), bridges)
    if unreported := status.unreported:
        yield "Not reported", ["part", "error"], [[part.part, one_line(part.error, 200)] for part in unreported]


def _readers(triggers: Sequence[TriggerStatus]) -> Iterator[TableRows]:
    """Subscribers that read the channel themselves (Spark): their progress and last error."""
    columns = ["reader", "state", "rows", "quarantined", "rows/s", "batch s", "lag", "by partition", "restarts"]
    columns += ["last error", "interface"]
    rows = []
    for trigger in triggers:
        if (reader := trigger.reader) is None:
            continue
        facts = reader.details
        speed = [_text(facts.get("rows_per_s")), _text(facts.get("batch_s"))]
        lags = facts.get("lags") or {}
        parts = " ".join(f"{part}:{lag}" for part, lag in sorted(lags.items()) if lag)
        last = facts.get("last_error")
        error = one_line(f"{last['at']} {last['error']}", 200) if last else ""
        counts = _texts(reader, "state", "rows", "quarantined")
        end = [*_texts(reader, "lag"), parts, *_texts(reader, "restarts"), error, facts.get("ui") or ""]
        rows.append([trigger.name, *counts, *speed, *end])
    if rows:
        keep = [i for i in range(len(columns)) if any(row[i] for row in rows)]
        yield "Readers", [columns[i] for i in keep], [[row[i] for i in keep] for row in rows]


def _condition(entry: Entry) -> list[str]:
    return [entry.name, "yes" if entry.ready else "no"]


def _with_retries(table: TableRows, entries: Sequence[DeliveryStatus]) -> TableRows:
    """The table, with columns for how long events are retried, and after what waits, if any has failed."""
    if all(entry.longest_wait_s is None for entry in entries):
        return table
    title, columns, rows = table
    more = [
        [entry.retried_until or "", "" if entry.longest_wait_s is None else f"{entry.longest_wait_s:g} s"]
        for entry in entries
    ]
    return title, [*columns, "retried until", "longest wait"], [[*a, *b] for a, b in zip(rows, more, strict=True)]


def _with_delays(table: TableRows, triggers: Sequence[TriggerStatus]) -> TableRows:
    """The table, with columns for the events that wait until they are due, if any trigger has some."""
    if not any(trigger.delayed or trigger.delayed_until for trigger in triggers):
        return table
    title, columns, rows = table
    more = [
        [_text(t.delayed), t.delayed_until or "", f"{t.delayed_late_s:g} s" if t.delayed_late_s else ""]
        for t in triggers
    ]
    return title, [*columns, "delayed", "first due", "late"], [[*a, *b] for a, b in zip(rows, more, strict=True)]


def _with_reasons(table: TableRows, entries: Sequence[Entry]) -> TableRows:
    """The table, with a column for the reason if something is not ready, or works in part only."""
    if not any(entry.reason for entry in entries):
        return table
    title, columns, rows = table
    why = [one_line(entry.reason, 200) for entry in entries]
    return title, [*columns, "reason"], [[*row, text] for row, text in zip(rows, why, strict=True)]


def _texts(record: Record, *names: str) -> list[str]:
    return [_text(getattr(record, name)) for name in names]


def _text(value: Any) -> str:
    return "" if value is None else str(value)
