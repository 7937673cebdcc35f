"""Takes the gateway's log."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class _Handler(logging.Handler):
    def __init__(self, logged: Callable[[str, str, str, str], None], folder: Path) -> None:
        super().__init__()
        self._logged = logged
        self._folder = str(folder)

    def emit(self, record: logging.LogRecord) -> None:
        error = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self._logged(record.levelname, record.name, self._same(record.getMessage()), self._same(error))

    def _same(self, text: str) -> str:
        """Without what differs from run to run."""
        return _ADDRESS.sub("0x…", text.replace(self._folder, ""))


@contextmanager
def captured(logged: Callable[[str, str, str, str], None], folder: Path) -> Iterator[None]:
    """Inside, `logged` gets the level, the logger, the text and the traceback of each line, and nobody else does."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    tidegate = logging.getLogger("tidegate")
    own = tidegate.level, tidegate.propagate
    root.handlers[:] = [_Handler(logged, folder)]
    root.setLevel(logging.WARNING)
    tidegate.setLevel(logging.INFO)
    tidegate.propagate = True
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        tidegate.setLevel(own[0])
        tidegate.propagate = own[1]
