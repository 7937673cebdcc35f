"""Values made of files that others renew: certificates, keys, secrets."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from gateway_core.contract.errors import TidegateError

log = logging.getLogger(__name__)

CHECK_S = 1.0
"""How often the files are looked at, at most."""
GONE_S = 0.1
"""How soon after a file was missed for the first time it counts as removed, and not as being replaced; in seconds."""

T = TypeVar("T")
_Stamp = tuple[tuple[int, ...], ...]
_MISSING = ()
_UNREADABLE = (-1,)


class Renewed(Generic[T]):
    """The value that `make` reads from `paths`, read again once one of the files has changed.

    `current` looks at the files itself, at most every `CHECK_S` seconds, so it needs no task. Files that can't be used
    leave the last value in place, with one log line. They are read again at the next look, so that a key that arrives
    a moment after its certificate does no harm and is not logged. `owner` is the path in the config, `what` the word
    for the files in the log ("certificates"). `make` raises `OSError`, `ValueError` or `TidegateError`; the first call
    is the constructor's, which passes them on.

    `gone` makes the value after a file was removed, so that it can be one that lets nobody in. Without it, or if it
    raises like `make`, the last value stays.
    """

    __slots__ = (
        "_failed", "_gone", "_make", "_next", "_now", "_owner", "_paths", "_removed", "_stamp", "_value", "_what",
        "made",
    )  # fmt: skip

    def __init__(
        self,
        paths: Sequence[Path],
        make: Callable[[], T],
        owner: str,
        what: str,
        now: Callable[[], float] = time.monotonic,
        gone: Callable[[], T] | None = None,
    ) -> None:
        self._paths = paths
        self._make = make
        self._owner = owner
        self._what = what
        self._now = now
        self._gone = gone
        self._removed = False
        self._failed: tuple[_Stamp, bool] | None = None  # what could not be used, and whether the log says so
        self._stamp = self._look()
        self._value = make()
        self._next = now() + CHECK_S
        self.made = 1  # how often the value was read

    def current(self) -> T:
        """The value of the files as they are, or as they last could be used."""
        if self._paths and self._now() >= self._next:
            self._next = self._now() + CHECK_S
            stamp = self._look()  # before the files are read: a change in between is seen at the next look
            if stamp != self._stamp:
                self._renew(stamp)
        return self._value

    def _renew(self, stamp: _Stamp) -> None:
        try:
            self._value = self._make()
        except (OSError, ValueError, TidegateError) as e:
            known = self._failed is not None and self._failed[0] == stamp
            logged = known and self._failed is not None and self._failed[1]
            if self._gone is not None and _MISSING in stamp:
                if known and not logged and self._remove(stamp, self._gone):
                    return
                if not known:
                    self._next = min(self._next, self._now() + GONE_S)
            if known and not logged:
                kept = "there are none in use" if self._removed else "the old ones stay in use"
                log.warning("%s: the new %s can't be used, %s: %s", self._owner, self._what, kept, e)
            self._failed = stamp, known
            return
        self._removed = False
        self._stamp = stamp
        self._failed = None
        self.made += 1
        log.info("%s: the %s have changed, the new ones are in use", self._owner, self._what)

    def _remove(self, stamp: _Stamp, gone: Callable[[], T]) -> bool:
        try:
            self._value = gone()
        except (OSError, ValueError, TidegateError):
            return False
        names = ", ".join(str(path) for path, found in zip(self._paths, stamp, strict=True) if found == _MISSING)
        log.warning("%s: %s was removed: its %s are no longer in use", self._owner, names, self._what)
        self._stamp, self._failed, self._removed = stamp, None, True
        return True

    def _look(self) -> _Stamp:
        found: list[tuple[int, ...]] = []
        for path in self._paths:
            try:
                s = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                found.append(_MISSING)
            except OSError:
                found.append(_UNREADABLE)
            else:
                found.append((s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino, s.st_dev))
        return tuple(found)
