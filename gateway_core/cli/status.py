"""`tidegate status`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from . import OK, common
from .running import connected, fetch_status
from .tables import print_table, rich_table

Table = tuple[str, Sequence[str], list[list[str]]]
"""Title, columns, rows."""


def show_status(admin: str | None, data_dir: Path | None, every_s: float | None, *, as_json: bool) -> int:
    """Shows the status once, or every so many seconds until Ctrl-C. Returns the exit code."""
    with connected(admin, data_dir) as (url, http):
        if every_s is None:
            _show(fetch_status(url, http), as_json)
        else:
            try:
                _watch(url, http, every_s, as_json)
            except KeyboardInterrupt:
                return OK
    return OK


def _show(status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        common.print_json(status)
        return
    print(headline(status))
    for title, columns, rows in tables(status):
        print()
        print_table(title, columns, rows)


def _watch(url: str, http: httpx.Client, every_s: float, as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        while True:
            _show(fetch_status(url, http), as_json)
            sys.stdout.flush()
            time.sleep(every_s)
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    before, then = fetch_status(url, http), time.monotonic()
    console = common.console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            status, now = fetch_status(url, http), time.monotonic()
            shown = [rich_table(*table, console.width) for table in tables(status, before, now - then)]
            live.update(Group(Text(headline(status)), *shown), refresh=True)
            before, then = status, now
            time.sleep(every_s)


def headline(status: dict[str, Any]) -> str:
    """One line about the process."""
    ready = "ready" if status["ready"] else "NOT READY"
    workers = f", {status['workers']} workers" if status.get("workers", 1) > 1 else ""
    return f"tidegate {status['version']}  {ready}  pid {status['pid']}{workers}  up {_span(status['uptime_s'])}"


def tables(status: dict[str, Any], before: dict[str, Any] | None = None, seconds: float = 0.0) -> Iterator[Table]:
    """The sections that have entries; with an earlier status also rates over the time between."""
    rates = before is not None and seconds > 0

    def rate(section: str, entry: dict[str, Any], count: str) -> list[str]:
        if not rates or before is None:
            return []
        old = next((e for e in before[section] if e["name"] == entry["name"]), entry)
        return [f"{max(0, entry[count] - old[count]) / seconds:,.0f}"]

    per_s = ["per s"] if rates else []
    if brokers := status["brokers"]:
        rows = [
            [
                *_condition(b),
                " ".join(b["ingress"]),
                b["channel"]["name"],
                *_texts(b, "accepted"),
                *rate("brokers", b, "accepted"),
                *_texts(b, "refused", "unrouted"),
            ]
            for b in brokers
        ]
        columns = ["broker", "ready", "ingress", "channel", "accepted", *per_s, "refused", "unrouted"]
        yield _with_reasons(("Brokers", columns, rows), brokers)
    if triggers := status["triggers"]:
        counts = ("attempts", "retried", "dead_lettered", "in_flight", "lag")
        rows = [
            [
                *_condition(t),
                t["broker"],
                t["subscriber"] or "",
                *_texts(t, "delivered"),
                *rate("triggers", t, "delivered"),
                *_texts(t, *counts),
            ]
            for t in triggers
        ]
        columns = ["trigger", "ready", "broker", "subscriber", "delivered", *per_s]
        columns += ["attempts", "retried", "dead", "in flight", "lag"]
        yield _with_reasons(("Triggers", columns, rows), triggers)
    if bridges := status["bridges"]:
        rows = [
            [
                *_condition(b),
                b["source"],
                b["sink"],
                *_texts(b, "delivered"),
                *rate("bridges", b, "delivered"),
                *_texts(b, "refused", "failed", "dead_lettered"),
            ]
            for b in bridges
        ]
        columns = ["bridge", "ready", "source", "sink", "delivered", *per_s, "refused", "failed", "dead"]
        yield _with_reasons(("Bridges", columns, rows), bridges)


def _condition(entry: dict[str, Any]) -> list[str]:
    return [entry["name"], "yes" if entry["ready"] else "no"]


def _with_reasons(table: Table, entries: list[dict[str, Any]]) -> Table:
    """The table, with a column that says why, where something isn't ready."""
    if all(entry["ready"] for entry in entries):
        return table
    title, columns, rows = table
    why = ["" if entry["ready"] else common.one_line(entry["reason"], 200) for entry in entries]
    return title, [*columns, "reason"], [[*row, text] for row, text in zip(rows, why, strict=True)]


def _texts(entry: dict[str, Any], *names: str) -> list[str]:
    return ["" if entry.get(name) is None else str(entry[name]) for name in names]


def _span(seconds: float) -> str:
    minutes, s = divmod(int(seconds), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    return f"{days}d {h}h" if days else f"{h}h {m}m" if h else f"{m}m {s}s" if m else f"{s}s"
