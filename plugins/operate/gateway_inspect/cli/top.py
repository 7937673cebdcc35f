"""`tidegate top`: rates between two updates."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway_api.client.running import connected, fetch_status
from gateway_terminal.status_line import headline
from gateway_terminal.tables import TableRows, print_table, rich_table
from gateway_terminal.tables import console as new_console

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import OK
from gateway_core.contract.status import GatewayStatus

from ..rates import SORTS, between

Look = Callable[[], GatewayStatus]


def show_top(
    admin: str | None, data_dir: Path | None, every_s: float, sort: str, count: int | None, *, as_json: bool
) -> int:
    """Shows rates every `interval` seconds, `count` times, or until Ctrl-C or q. Returns the exit code."""
    with connected(admin, data_dir) as (url, http):

        def look() -> GatewayStatus:
            return fetch_status(url, http)

        try:
            if as_json or not sys.stdout.isatty():
                _lines(look, every_s, sort, count, as_json=as_json)
            else:
                _live(look, every_s, sort, count)
        except KeyboardInterrupt:
            pass
    return OK


def _lines(look: Look, every_s: float, sort: str, count: int | None, *, as_json: bool) -> None:
    before, then, shown = look(), time.monotonic(), 0
    while shown != count:
        time.sleep(every_s)
        status, now = look(), time.monotonic()
        rates = between(before, status, now - then, sort)
        before, then, shown = status, now, shown + 1
        if as_json:
            common.print_json(rates)
        else:
            print(headline(status))
            for table in tables(rates):
                print()
                print_table(*table)
            print()
        sys.stdout.flush()


def _live(look: Look, every_s: float, sort: str, count: int | None) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    before, then, shown = look(), time.monotonic(), 0
    console = new_console()
    help_ = "q quits, s sorts by "
    with _keys() as key, Live(Text(headline(before)), console=console, screen=True, auto_refresh=False) as live:
        while shown != count:
            until = time.monotonic() + every_s
            while (left := until - time.monotonic()) > 0:
                pressed = key(left)
                if pressed in ("q", "Q", "\x1b"):
                    return
                if pressed == "s":
                    sort = SORTS[(SORTS.index(sort) + 1) % len(SORTS)]
                    break
            try:
                status, now = look(), time.monotonic()
            except CommandError as e:  # it may come back
                live.update(Text(str(e), "bold red"), refresh=True)
                continue
            rates = between(before, status, now - then, sort)
            if now - then >= min(1.0, every_s):  # else a key changed the order of the same update
                before, then = status, now
            shown += 1
            found = [rich_table(*table, console.width) for table in tables(rates)]
            live.update(Group(Text(headline(status)), *found, Text(f"\n{help_}{sort}", "dim")), refresh=True)


def _no_key(wait: float) -> str:
    time.sleep(wait)
    return ""


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Returns a function that waits some seconds for a key and returns it, or ""."""
    if not sys.stdin.isatty():
        yield _no_key
        return
    import select
    import termios
    import tty

    saved = termios.tcgetattr(sys.stdin)

    def pressed(wait: float) -> str:
        ready, _, _ = select.select([sys.stdin], [], [], wait)
        return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(sys.stdin)
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)


# -- tables -----------------------------------------------------------------------------------------------------------

_COLUMNS: dict[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "brokers": (
        "Brokers",
        [
            ("broker", "name"),
            ("state", "state"),
            ("accepted/s", "accepted_per_s"),
            ("refused/s", "refused_per_s"),
            ("p50", "p50_s"),
            ("p99", "p99_s"),
        ],
    ),
    "triggers": (
        "Triggers",
        [
            ("trigger", "name"),
            ("state", "state"),
            ("delivered/s", "delivered_per_s"),
            ("retried/s", "retried_per_s"),
            ("dead/s", "dead_lettered_per_s"),
            ("in flight", "in_flight"),
            ("waiting", "waiting"),
            ("lag", "lag"),
            ("p50", "p50_s"),
            ("p99", "p99_s"),
        ],
    ),
}
_COLUMNS["readers"] = (
    "Readers",
    [
        ("reader", "name"),
        ("state", "state"),
        ("rows/s", "rows_per_s"),
        ("quarantined/s", "quarantined_per_s"),
        ("lag", "lag"),
        ("last batch", "batch_s"),
    ],
)
_COLUMNS["bridges"] = ("Bridges", [("bridge", "name"), *_COLUMNS["triggers"][1][1:]])


def tables(rates: dict[str, Any]) -> Iterator[TableRows]:
    """The sections that have entries."""
    for section, (title, columns) in _COLUMNS.items():
        if entries := rates.get(section):
            rows = [[_cell(key, entry.get(key)) for _, key in columns] for entry in entries]
            yield title, [name for name, _ in columns], rows


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key.endswith("_per_s"):
        return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    if key.endswith("_s"):
        return _span(value)
    return str(value)


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
