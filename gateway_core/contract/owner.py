"""What a component is called in errors and the log: its path in the config."""

from __future__ import annotations

from typing import Self


class Owner(str):
    """The path of a component that a reload may keep and move to another place of its list.

    Written into a text (`%s`, `f"{owner}"`, `str(owner)`) it is the present path. As a value (equality, keys, joins) it
    stays what it was at first: no name that must last may be made from it.
    """

    _path: str
    _base: Owner | None
    _end: str

    def __new__(cls, path: str, base: Owner | None = None, end: str = "") -> Self:
        made = super().__new__(cls, path)
        made._path, made._base, made._end = str(path), base, end
        return made

    def __str__(self) -> str:
        return self._path if self._base is None else f"{self._base}{self._end}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def moved(self, path: str) -> None:
        """Changes the path that texts show."""
        self._path = path


def within(owner: str, end: str) -> str:
    """What a part of a component is called: `owner` and this, wherever the component is moved."""
    return Owner(f"{owner}{end}", owner, end) if isinstance(owner, Owner) else f"{owner}{end}"
