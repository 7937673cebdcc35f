"""What every server that runs as our child needs: a folder of its own, a patient start, the end of its log."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway_core.contract.errors import StartError

from .child import Child

POLL_S = 0.02
"""How often to look whether a server has come as far; in seconds."""


@contextmanager
def alone(folder: Path, title: str) -> Iterator[None]:
    """Locks a server's folder for this process. Raises `StartError` if another process holds it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as e:
        raise StartError(f"can't write to {folder}: {e}") from e
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(f"another {title} uses the data in {folder}") from None
        yield


def wait_until_it_answers(child: Child, answers: Callable[[], bool], deadline: float, title: str, log: Path) -> None:
    """Returns once the server answers. Raises `StartError`, with the end of its log, if it ends early or does not
    answer by `deadline` (`time.monotonic`)."""
    while not answers():
        if (code := child.ended()) is not None:
            raise StartError(f"{title} ended early (code {code})\n{tail(log)}")
        if time.monotonic() > deadline:
            raise StartError(f"{title} did not answer in time\n{tail(log)}")
        time.sleep(POLL_S)


def tail(log: Path, lines: int = 15) -> str:
    """The end of a server's log, for people; nothing but its name if there is none yet."""
    said = log.read_text(errors="replace").splitlines()[-lines:] if log.exists() else []
    return "\n".join([f"the end of {log}:", *(f"  {line}" for line in said)])
