"""Finds filter values that probably don't mean what their authors think."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def wildcards(attributes: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    """A warning for each value with a `*`, which dialects of filters compare as it is: the name, the message, the
    remedy."""
    for name, text in attributes.items():
        if "*" in text:
            message = f"`{text}` is compared as it is: `*` stands for nothing else, so hardly any event matches"
            yield name, message, f"write `{spelt(name, text)}` in `filters`"


def spelt(name: str, text: str) -> str:
    """The filter that matches what the author of a value with `*` thinks of, as a config has it."""
    if text.strip("*") == "":
        return f"cesql: EXISTS {name}"
    if "*" not in text[:-1]:
        return f"prefix: {{{name}: {text[:-1]}}}"
    if "*" not in text[1:]:
        return f"suffix: {{{name}: {text[1:]}}}"
    return f'cesql: "{like(name, text)}"'


def like(name: str, text: str) -> str:
    """The same as an expression of CloudEvents SQL."""
    pattern = text.replace("%", "\\%").replace("_", "\\_").replace("*", "%").replace("'", "\\'")
    return f"{name} LIKE '{pattern}'"
