"""Gathers faults and warnings while a config is loaded, and keeps secrets out of them."""

from __future__ import annotations

from collections.abc import Iterable

from ..contract.config_node import Node, Place
from ..contract.errors import Fault
from .faults import in_order
from .interpolate import Interpolator, Secrets
from .places import locate, written

_LONG = 4  # a shorter secret is hidden only where its own value is spoken of: it would blot out common words


class Report:
    """Adds file and line to each message by its path. Messages about a value that already has a fault are dropped."""

    def __init__(self, root: Node, bad: Iterable[Place] = ()) -> None:
        self._root = root
        self._faults: list[tuple[Fault, Place]] = []
        self._warnings: list[tuple[Fault, Place]] = []
        self._bad: set[Place] = set(bad)
        self._secret: set[Place] = set()
        self._shown: dict[Place, str] = {}
        self._around_secret: set[Place] = set()  # all paths that lead to one

    def fault(self, message: str, path: Place, remedy: str = "") -> None:
        """Reports a fault: the config can't be used."""
        if not self._about_bad(path):
            self._faults.append((self._make(message, path, remedy), path))

    def warn(self, message: str, path: Place, remedy: str = "") -> None:
        """Reports a warning: the config can be used."""
        self._warnings.append((self._make(message, path, remedy), path))

    def take(self, interpolator: Interpolator) -> None:
        """Takes over which values have a fault, and which hold secrets."""
        self._bad |= interpolator.bad
        self._secret |= interpolator.secret
        self._shown |= interpolator.shown
        self._around_secret |= {p[:n] for p in interpolator.secret for n in range(len(p) + 1)}

    def shown(self, path: Place) -> str | None:
        """What may be shown of the URL at a path, if not all of it. A sink may be written as a URL."""
        return next((text for n in range(len(path), 0, -1) if (text := self._shown.get(path[:n]))), None)

    def is_secret(self, path: Place) -> bool:
        """Whether the value at a path holds a secret, or is part of one."""
        return any(path[:n] in self._secret for n in range(len(path) + 1)) if self._secret else False

    def holds_secret(self, path: Place) -> bool:
        """Whether the value at a path, or anything in it, holds a secret."""
        return path in self._around_secret or self.is_secret(path)

    def _about_bad(self, path: Place) -> bool:
        return any(path[:n] in self._bad for n in range(len(path) + 1)) if self._bad else False

    def _make(self, message: str, path: Place, remedy: str) -> Fault:
        file, line = locate(self._root, path)
        return Fault(message, written(self._root, path), file, line, remedy)

    def faults(self, secrets: Secrets) -> list[Fault]:
        """All faults in order, without secrets."""
        return in_order(self._hidden(f, p, secrets) for f, p in self._faults)

    def warnings(self, secrets: Secrets) -> list[Fault]:
        """All warnings in order, without secrets."""
        return in_order(self._hidden(f, p, secrets) for f, p in self._warnings)

    def _hidden(self, fault: Fault, path: Place, secrets: Secrets) -> Fault:
        shortest = 1 if self.holds_secret(path) else _LONG
        message, remedy = secrets.hide(fault.message, shortest), secrets.hide(fault.remedy, shortest)
        return Fault(message, fault.path, fault.file, fault.line, remedy)
