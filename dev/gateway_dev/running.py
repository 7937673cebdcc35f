"""What the commands that run a server share: Ctrl-C, progress, and waiting until the server is stopped."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

POLL_S = 0.2


class Running(Protocol):
    """A server that runs."""

    @property
    def pid(self) -> int | None: ...

    def stop(self) -> None: ...

    def tail(self) -> str: ...


def obey_ctrl_c() -> None:
    """Ctrl-C and SIGTERM stop the command, even if a background shell made it ignore Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def serve(server: Running, announce: Callable[[], None], title: str) -> int:
    """Says that the server is ready. Returns 0 when it was stopped, 1 when it died."""
    try:
        announce()  # whoever reads it may stop the server at once
        while server.pid is not None:
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        print("Stopping (Ctrl-C again ends it at once).", flush=True)
        server.stop()
        return 0
    print(f"tidegate: {title} ended unexpectedly; {server.tail()}", file=sys.stderr)
    return 1


def progress(what: str) -> Any:
    """Shows the current step: on a terminal with the elapsed time, else in one line."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"{what} …", markup=False, soft_wrap=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    progress.add_task(what, total=None)
    return progress
