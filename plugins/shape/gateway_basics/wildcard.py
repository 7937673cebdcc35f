"""Patterns of text with `*` for any characters, as the filter `data` writes them."""

from __future__ import annotations

from collections.abc import Sequence


def pieces(pattern: str) -> list[str]:
    """The texts between the stars of a pattern; `\\*` is a star, `\\\\` a backslash. Raises `ValueError`."""
    found, escaped = [""], False
    for character in pattern:
        if escaped and character not in "*\\":
            break
        if escaped or character not in "*\\":
            found[-1] += character
            escaped = False
        elif character == "*":
            found.append("")
        else:
            escaped = True
    if escaped:
        raise ValueError("a `\\` stands before `*` or another `\\`: write `\\\\` for one")
    return found


def fits(text: str, parts: Sequence[str]) -> bool:
    """Whether the text has these parts in this order, the first at its start and the last at its end. Each part is
    looked for once, behind the one before, so the time is bounded by the two lengths."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return text == first
    end = len(text) - len(last)
    if len(first) > end or not (text.startswith(first) and text.endswith(last)):
        return False
    at = len(first)
    for part in parts[1:-1]:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
