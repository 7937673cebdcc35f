"""LIKE patterns (CESQL section 3.4.3)."""

from __future__ import annotations

import re
from collections.abc import Callable

ANY, ONE = object(), object()
_PART = re.compile(r"\\[%_]|[%_]|\\|[^\\%_]+")


def parts(pattern: str) -> list[object]:
    """A pattern's texts, `ANY` for `%` and `ONE` for `_`, in order, with escapes resolved and adjacent texts joined."""
    found: list[object] = []
    for piece in _PART.findall(pattern):
        part = ANY if piece == "%" else ONE if piece == "_" else piece[1:] if piece in ("\\%", "\\_") else piece
        last = found[-1] if found else None
        if part is ANY and last is ANY:
            continue
        if isinstance(part, str) and isinstance(last, str):
            found[-1] = last + part
        else:
            found.append(part)
    return found


def fixed_start(pattern: str) -> tuple[str, bool]:
    """The text that every match begins with, and whether it is the whole match."""
    found = parts(pattern)
    if not found:
        return "", True
    return (found[0] if isinstance(found[0], str) else ""), len(found) == 1 and isinstance(found[0], str)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches, in time linear in the text for a given pattern."""
    found = parts(pattern)
    match found:
        case []:
            return lambda text: text == ""
        case [str(whole)]:
            return lambda text: text == whole
        case [part] if part is ANY:
            return lambda text: True
        case [str(start), last] if last is ANY:
            return lambda text: text.startswith(start)
        case [first, str(end)] if first is ANY:
            return lambda text: text.endswith(end)
        case [first, str(inner), last] if first is ANY and last is ANY:
            return lambda text: inner in text
    matches = re.compile(_regex(found), re.DOTALL).fullmatch
    return lambda text: matches(text) is not None


def _regex(found: list[object]) -> str:
    """Each piece between two `%` matches its first occurrence, in an atomic group: no later one could do better, and
    values from senders can't cause backtracking."""
    pieces = [""]
    for part in found:
        if part is ANY:
            pieces.append("")
        else:
            pieces[-1] += "." if part is ONE else re.escape(str(part))
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1])
    return f"{pieces[0]}{middle}.*{pieces[-1]}"
