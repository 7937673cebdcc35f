"""Gathers faults and warnings while a config is loaded, and keeps secrets out of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..contract.config_node import Node, Place, locate, written
from ..contract.errors import Fault
from ..contract.faults import in_order
from ..contract.interpolation import Interpolator, Secrets
from ..contract.options import HIDDEN, is_credential

_LONG = 4  # a shorter secret is hidden only where its own value is spoken of: it would blot out common words


class Report:
    """The faults and warnings of one config, whose sections are in `root`. Adds file and line to each message by its
    place. `bad` has the places whose values already have a fault: further messages about them are dropped."""

    def __init__(self, root: Node) -> None:
        self.bad: set[Place] = set()
        self.hides = False  # whether any value holds a secret, or may not be shown whole
        self._root = root
        self._faults: list[tuple[Fault, Place | None]] = []
        self._warnings: list[tuple[Fault, Place | None]] = []
        self._secret: dict[Place, list[str]] = {}
        self._shown: dict[Place, str] = {}
        self._around_secret: set[Place] = set()  # all places that lead to one

    def add(self, faults: Iterable[Fault], warnings: Iterable[Fault] = ()) -> None:
        """Adds what was found before secrets were filled in."""
        self._faults += [(fault, None) for fault in faults]
        self._warnings += [(warning, None) for warning in warnings]

    @property
    def said(self) -> int:
        """The number of faults and warnings."""
        return len(self._faults) + len(self._warnings)

    def fault(self, message: str, place: Place, remedy: str = "") -> None:
        """Reports a fault: the config can't be used."""
        if not self.bad or not any(place[:n] in self.bad for n in range(len(place) + 1)):
            self._faults.append((self._made(message, place, remedy), place))

    def warn(self, message: str, place: Place, remedy: str = "") -> None:
        """Reports a warning: the config can be used."""
        self._warnings.append((self._made(message, place, remedy), place))

    def filled(self, node: Node, place: Place, env: Mapping[str, str], secrets: Secrets | None = None) -> Any:
        """The plain value of a node (`Interpolator.plain`). Remembers which values have a fault or hold a secret."""
        interpolator = Interpolator(env, secrets, self.fault)
        value = interpolator.plain(node, place)
        self.bad |= interpolator.bad
        self._secret |= interpolator.secret
        self._shown |= interpolator.shown
        self.hides = bool(self._secret or self._shown)
        self._around_secret |= {p[:n] for p in interpolator.secret for n in range(len(p) + 1)}
        return value

    def shown(self, place: Place) -> str | None:
        """What may be shown of the URL at a place, if not all of it. A sink may be written as a URL."""
        return next((text for n in range(len(place), 0, -1) if (text := self._shown.get(place[:n]))), None)

    def is_secret(self, place: Place) -> bool:
        """Whether the value at a place holds a secret, or is part of one."""
        return any(place[:n] in self._secret for n in range(len(place) + 1)) if self._secret else False

    def is_hidden(self, place: Place) -> bool:
        """Whether no message may show the value at a place: a secret, or an option that is named like a credential."""
        return self.is_secret(place) or any(is_credential(step) for step in place if isinstance(step, str))

    def holds_secret(self, place: Place) -> bool:
        """Whether the value at a place, or anything in it, holds a secret."""
        return place in self._around_secret or self.is_secret(place)

    def _made(self, message: str, place: Place, remedy: str) -> Fault:
        return Fault(message, written(self._root, place), *locate(self._root, place), remedy)

    @property
    def faults(self) -> list[Fault]:
        """All faults in order, without secrets."""
        return in_order(self._without_secrets(*found) for found in self._faults)

    @property
    def warnings(self) -> list[Fault]:
        """All warnings in order, without secrets."""
        return in_order(self._without_secrets(*found) for found in self._warnings)

    def _without_secrets(self, fault: Fault, place: Place | None) -> Fault:
        if place is None:
            return fault
        shortest = 1 if self.holds_secret(place) else _LONG
        message, remedy = self._hidden(fault.message, shortest), self._hidden(fault.remedy, shortest)
        return Fault(message, fault.path, fault.file, fault.line, remedy)

    def _hidden(self, text: str, shortest: int) -> str:
        """The text with every secret of at least `shortest` characters, also escaped, written as `****`."""
        values = {value for found in self._secret.values() for value in found}
        forms = {f for value in values for f in _forms(value) if len(f) >= shortest and f.strip("*")}
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, HIDDEN)
        return text


def _forms(value: str) -> Iterator[str]:
    yield value
    yield repr(value)[1:-1]
    yield value.strip() or value
    yield from (line for line in value.splitlines() if len(line) > 3)
