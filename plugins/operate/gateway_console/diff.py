"""Differences between two texts, line by line, as pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

_CONTEXT = 3


@dataclass(frozen=True, slots=True)
class Line:
    """A line. `kind` is "same", "removed", "added", or "left" for lines between that are left out."""

    kind: str
    text: str


def lines(before: str, after: str) -> list[Line]:
    """The differences, with a few lines around each."""
    old, new = before.splitlines(), after.splitlines()
    made: list[Line] = []
    for number, group in enumerate(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT)):
        if number:
            made.append(Line("left", "…"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                made += [Line("same", text) for text in old[i1:i2]]
                continue
            made += [Line("removed", text) for text in old[i1:i2]]
            made += [Line("added", text) for text in new[j1:j2]]
    return made
