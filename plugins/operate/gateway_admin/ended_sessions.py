"""Sessions that were ended before their time. Their cookies are signed, so nothing else tells that they have ended."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from gateway_core.contract.private_files import replace_file

log = logging.getLogger("tidegate.admin")

MOST = 1000
_MOST_BYTES = 256 * 1024


class EndedSessions:
    """The ids of ended sessions, in a file, each until its session would have ended by itself. Of more than `MOST` the
    one that would end first is left out."""

    def __init__(self, file: Path, now_s: Callable[[], float]) -> None:
        self._file = file
        self._now_s = now_s
        self._ends: dict[str, int] | None = None
        self._lock = threading.Lock()

    def __contains__(self, id: str) -> bool:
        return id in self._known()

    def add(self, id: str, end_s: int) -> None:
        """Adds a session that would end at `end_s`, in Unix time. It has ended even if the file can't be written; then
        a warning says so. May be called from any thread."""
        with self._lock:
            now = self._now_s()
            ends = {known: end for known, end in self._known().items() if end > now} | {id: end_s}
            while len(ends) > MOST:
                del ends[min(ends, key=ends.__getitem__)]
            self._ends = ends
            try:
                replace_file(self._file, json.dumps(ends).encode())
            except OSError as e:
                log.warning("can't write %s: a logout does not outlive a restart: %s", self._file, e.strerror)

    def _known(self) -> dict[str, int]:
        if self._ends is None:
            self._ends = self._read()
        return self._ends

    def _read(self) -> dict[str, int]:
        try:
            with self._file.open("rb") as file:
                found = json.loads(file.read(_MOST_BYTES))
            return {str(id): int(end) for id, end in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as e:
            log.warning("can't read %s: who logged out before is logged in again: %s", self._file, type(e).__name__)
            return {}
