"""Paths into JSON data, as the filter `data` writes them: `customer.tier`."""

from __future__ import annotations

import re

MOST_STEPS = 32
"""The most names in a path."""
MAX_BYTES = "$max_bytes"
"""The key that is an option and no path."""
_SPECIAL = ".\\[]$"
_INDEX = re.compile(r"\[(?:\d+|\*|)\]")


def steps(text: str) -> tuple[str, ...]:
    """The names of a path. Raises `ValueError`: "what is wrong; the remedy"."""
    if text.startswith("$"):
        plain = text.removeprefix("$").removeprefix(".")
        raise ValueError(
            f"a path begins with a name, and `{text}` with `$`; write `{plain}`, or `\\{text}` if the name begins so"
        )
    found, name, at = list[str](), "", 0
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
            if at == len(text) or text[at] not in _SPECIAL:
                raise ValueError(f"in the path `{text}` the `\\` stands before nothing special; write `\\\\` for one")
            name += text[at]
        elif character == ".":
            found.append(name)
            name = ""
        elif character in "[]":
            raise ValueError(f"a path has no `{character}`; {_without_index(text, character)}")
        else:
            name += character
        at += 1
    found.append(name)
    if "" in found:
        raise ValueError(f"the path `{text}` has an empty name; write one name between two dots, `\\.` for a dot")
    if len(found) > MOST_STEPS:
        raise ValueError(f"the path has {len(found)} names; write {MOST_STEPS} at most")
    return tuple(found)


def _without_index(text: str, character: str) -> str:
    plain = _INDEX.sub("", text)
    if plain and plain != text and "[" not in plain:
        return f"write `{plain}`: any element of an array may match"
    return f"write `\\{character}` if it is part of a name"
