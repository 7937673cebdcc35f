"""Parses the options of the data source. All functions raise `ValueError` naming the option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

_SOURCE = "of the data source tidegate"


def required(options: Mapping[str, str], name: str, what: str) -> str:
    if not (text := options.get(name)):
        raise ValueError(f"the data source tidegate needs the option {name!r}: {what}")
    return text


def whole(options: Mapping[str, str], name: str) -> int | None:
    """A whole number above 0."""
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"option {name!r} {_SOURCE} must be a whole number above 0, not {text!r}")
    return int(text)


def count(options: Mapping[str, str], name: str, otherwise: int) -> int:
    """A whole number, including 0."""
    text = options.get(name)
    return otherwise if text is None else 0 if text == "0" else whole(options, name) or otherwise


def seconds(options: Mapping[str, str], name: str, otherwise: float) -> float:
    text = options.get(name)
    try:
        value = otherwise if text is None else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 86_400:
        raise ValueError(f"option {name!r} {_SOURCE} must be seconds, above 0 and at most a day, not {text!r}")
    return value


def flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name!r} {_SOURCE} must be true or false, not {text!r}")
    return text == "true"


def prefixed(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The options whose names have this prefix, without it."""
    return {name[len(prefix) :]: value for name, value in options.items() if name.lower().startswith(prefix)}


def check_known(options: Mapping[str, str], known: Sequence[str], prefix: str) -> None:
    """Rejects unknown options, so that a misspelt one is not ignored silently."""
    names = {name.lower(): name for name in known}
    for option in options:
        if option.lower() not in names and not option.lower().startswith(prefix):
            near = get_close_matches(option.lower(), names, 1)
            hint = f"; did you mean {names[near[0]]!r}?" if near else ""
            raise ValueError(f"the data source tidegate writes with no option {option!r}{hint}")
