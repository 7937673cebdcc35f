"""What the oracle asks: each promise is a sentence of a page, and a function that finds what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..facts import Facts

Found = Iterator[tuple[float, str]]
"""When a promise was broken (simulated time), and how, in a sentence."""


@dataclass(frozen=True)
class Promise:
    """A sentence of docs/discussion/`page`.md, or of another folder that `page` names, and its check."""

    name: str
    page: str
    sentence: str
    check: Callable[[Facts], Found]


PROMISES: dict[str, Promise] = {}


def promise(page: str, sentence: str) -> Callable[[Callable[[Facts], Found]], Callable[[Facts], Found]]:
    """Registers the check of a promise; the function's name is that of the promise."""

    def register(check: Callable[[Facts], Found]) -> Callable[[Facts], Found]:
        name = check.__name__.replace("_", "-")
        PROMISES[name] = Promise(name, page, sentence, check)
        return check

    return register
