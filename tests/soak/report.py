"""The text of the page about a soak, from its figures alone: `tools/docs_proof.py` uses it, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Figures = dict[str, Any]

CHARTS = {
    "throughput": "Events a second",
    "open": "Events on their way",
    "memory": "Resident memory, MB",
    "descriptors": "Open file descriptors",
    "threads": "Threads",
    "size": "Size of the logs, MB",
    "lag": "Lag of triggers and tables, events",
    "recovery": "Seconds from the end of a fault until every route flowed",
    "starts": "Seconds that a start took",
}


def lines(figures: Figures) -> Iterator[str]:
    """The page."""
    yield "# A soak run"
    yield ""
    verdict = "Every promise was kept." if not figures["broken"] else "**Promises were broken**, see below."
    yield (
        f"**{figures['seconds'] / 60:,.0f} minutes, {figures['faults']:,} faults, {figures['events']:,} accepted "
        f"events, {figures['lost']:,} lost.** {verdict}"
    )
    yield ""
    yield f"`{figures['command']}` on {figures['machine']}; the gateway's disk: {figures['disk']}."
    if figures["broken"]:
        yield from ("", "## Broken", "")
        yield from (f"- {what}" for what in figures["broken"])
    yield from ("", "## Events", "", *route_table(figures), "")
    yield "A route is a way from senders to the subscriber: over HTTP, HTTPS or a Kafka topic into the log, over HTTP"
    yield "into the Kafka channel, and over HTTP into the log of a second gateway that is never killed."
    if figures["tables"]:
        yield from ("", "## Tables", "", *table_table(figures))
    yield from ("", "## Faults", "", *fault_table(figures), "")
    yield (
        f"*Again* are events that arrived more than once, by the fault that explains them; {figures['sent_again']:,} "
        "more did because their sender, without an answer, had sent them again."
    )
    if figures["skipped"]:
        skipped = ", ".join(f"{name} ({times})" for name, times in figures["skipped"].items())
        yield f"Not possible at the moment they were due: {skipped}."
    yield from ("", "## Starts", "", "| part | times | median | longest |", "| --- | ---: | ---: | ---: |")
    for part, row in figures["starts"].items():
        yield f"| {part} | {row['times']} | {row['median_s']:.1f} s | {row['most_s']:.1f} s |"
    yield from ("", "## Over time", "")
    if memory := figures["memory"]:
        yield f"The gateway that is never killed had {memory['early_mb']} MB early, {memory['late_mb']} MB at the end"
        yield f"({memory['percent']:+.1f} %). Red ticks are faults."
        yield ""
    for name, title in CHARTS.items():
        yield f"![{title}]({name}.svg)"
        yield ""


def route_table(figures: Figures) -> Iterator[str]:
    """Events by route."""
    yield "| route | accepted | delivered | dead letters | behind the proxy | arrived again | lost |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    yield from _rows(figures["routes"], "accepted", "delivered", "dead letters", "proxied", "again", "lost")


def table_table(figures: Figures) -> Iterator[str]:
    """The Spark tables."""
    yield "| table of | events | rows | missing | a position twice | wrong bytes | sent or read again by their sender |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    yield from _rows(figures["tables"], "wanted", "rows", "missing", "twice", "wrong", "copies")


def _rows(rows: dict[str, dict[str, int]], *keys: str) -> Iterator[str]:
    for name, row in rows.items():
        yield f"| {name} | {' | '.join(f'{row[key]:,}' for key in keys)} |"


def fault_table(figures: Figures) -> Iterator[str]:
    """Faults by kind."""
    yield "| fault | times | events again | recovery, median | longest |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, row in figures["by_fault"].items():
        spent = [f"{row[key]:.1f} s" if key in row else "" for key in ("median_s", "most_s")]
        yield f"| {name} | {row['times']:,} | {row['again']:,} | {spent[0]} | {spent[1]} |"


PUBLISHED = ("throughput", "recovery", "memory", "lag")
"""The charts that `docs/discussion/proof.md` shows."""


def published(runs: list[Figures]) -> Iterator[str]:
    """The figures of all runs that the tree keeps, in short; of the last one in full."""
    faults, events, lost = (sum(run[key] for run in runs) for key in ("faults", "events", "lost"))
    yield (
        f"**{sum(run['seconds'] for run in runs) / 60:,.0f} minutes, {faults:,} faults, {events:,} accepted events, "
        f"{lost:,} lost**, in all runs together:"
    )
    yield ""
    yield "| command | minutes | faults | accepted events | lost | not as promised |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for run in runs:
        cells = [round(run["seconds"] / 60), run["faults"], run["events"], run["lost"], len(run["broken"])]
        yield f"| `{run['command']}` | {' | '.join(f'{cell:,}' for cell in cells)} |"
    last = runs[-1]
    for broken in (what for run in runs for what in run["broken"]):
        yield from ("", f"Not as promised: {broken}.")
    yield ""
    yield f"The last run in full ({last['machine']}; the gateway's disk: {last['disk']}):"
    yield from ("", *route_table(last))
    if last["tables"]:
        yield from ("", *table_table(last))
    yield from ("", *fault_table(last), "")
    yield f"Beyond those, {last['sent_again']:,} events arrived again because their sender had got no answer."
    if memory := last["memory"]:
        yield ""
        yield f"The gateway that is never killed had {memory['early_mb']} MB after a third of the run (of two hours"
        yield f"and more: after the first hour), and {memory['late_mb']} MB at its end ({memory['percent']:+.1f} %);"
        yield "caches fill in the first minutes."
    for name in PUBLISHED:
        yield from ("", f"![{CHARTS[name]}](../images/soak-{name}.svg)")
