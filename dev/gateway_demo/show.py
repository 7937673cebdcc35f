"""The final output of the demo."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from os.path import relpath
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .accounting import Check
from .sender import Ledger

if TYPE_CHECKING:
    from .table import Answers


def answers(console: Console, found: Answers) -> None:
    """Shows the results of the Spark queries."""
    carriers = Table(title="Delay by carrier (minutes)", title_justify="left")
    for name, justify in (
        ("carrier", "left"),
        ("flights", "right"),
        ("mean", "right"),
        ("late", "right"),
        ("cancelled", "right"),
    ):
        carriers.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in found.carriers:
        carriers.add_row(row.name, f"{row.flights:,}", _minutes(row.mean), _share(row.late), _share(row.cancelled))
    hours = Table(title="Delay by scheduled hour (minutes)", title_justify="left")
    for name in ("hour", "flights", "mean", ""):
        hours.add_column(name, justify="right" if name else "left")
    worst = max((h.mean or 0.0 for h in found.hours), default=1.0) or 1.0
    for hour in found.hours:
        bar = "█" * round(24 * max(hour.mean or 0.0, 0.0) / worst)
        hours.add_row(f"{hour.hour:02}", f"{hour.flights:,}", _minutes(hour.mean), bar)
    console.print(carriers)
    console.print(hours)


def account(console: Console, checks: Sequence[Check], ledger: Ledger) -> None:
    """Shows the checks, and which of them failed."""
    console.print("\nAccount", style="bold")
    for check in checks:
        word = "[green]ok[/green]" if check.ok else "[bold red]MISSING[/bold red]"
        console.print(f"  {check.where:10} {check.text}  {word}", highlight=False, soft_wrap=True)
    for surprise in ledger.surprises[:5]:
        console.print(f"  unexpected response: {surprise}", highlight=False, markup=False)
    if ledger.refusal:
        console.print(
            f"  [dim]a refusal says: {escape(_detail(ledger.refusal))}[/dim]", highlight=False, soft_wrap=True
        )
    if all(check.ok for check in checks):
        console.print("Nothing is missing.", style="bold green")
    else:
        console.print("Something is missing: see the lines above.", style="bold red")


def further(
    console: Console, config_file: Path, folder: Path, seconds: float, *, data: Path | None, kafka: bool
) -> None:
    """Where to look next. `data` is the gateway's data directory if it was kept."""
    config, out = relpath(config_file), relpath(folder)
    here = program()
    variables = "" if out == "demo-out" else f"DEMO_OUT={out} "
    lines = [
        (f"{out}/delays.png", "the chart"),
        (f"{out}/table", "the table: docs/howto/read-the-table.md"),
        (f"{out}/gateway.log", "the gateway's log"),
        (config, "the whole pipeline"),
        (f"{variables}{here} dlq list -c {config}", "what could not be delivered, and why"),
    ]
    if kafka:
        lines.append(("docs/howto/laptop-to-cluster.md", "the same with your own Kafka and Spark clusters"))
    elif data is not None:
        lines.append((f"{here} log info --data-dir {relpath(data)}", "the durable log"))
    else:
        lines.append((f"{here} demo --keep", "leaves the gateway and its console open, and keeps its data"))
    pointers(console, seconds, lines)


def pointers(console: Console, seconds: float, lines: Sequence[tuple[str, str]]) -> None:
    """How long it took, and files and commands to look at next."""
    console.print(f"\nDone in {seconds:.0f} s. To look further:", style="bold")
    width = max(len(path) for path, _ in lines)
    for path, what in lines:
        console.print(f"  {path:{width}}  {what}", highlight=False, markup=False, soft_wrap=True)


def program() -> str:
    """The command to run `tidegate` from here."""
    beside = Path(sys.executable).with_name("tidegate")
    return "tidegate" if which("tidegate") == str(beside) or not beside.exists() else relpath(beside)


def _minutes(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _detail(problem: str) -> str:
    """The detail of an RFC 9457 problem, or the text itself."""
    try:
        body: dict[str, Any] = msgspec.json.decode(problem)
        return str(body["detail"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return problem[:200]
