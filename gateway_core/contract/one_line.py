"""Makes foreign text safe for the log, status and attributes: no control characters, bounded, and no secrets."""

from __future__ import annotations

from .options import redacted

MOST = 300


def one_line(text: object, most: int = MOST) -> str:
    """At most `most` characters of it on one line. Runs of white space become one space; what could mislead a terminal
    or a reader of logs (control characters, marks that change the direction of text) is escaped like `\\x1b`."""
    said = text if isinstance(text, str) else str(text)
    cut = redacted(said[: most * 2 + 4096])[: most * 2 + 100]
    line = " ".join(cut.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
    return line if len(line) <= most and len(cut) == len(said) else line[: max(0, most - 1)] + "…"


def harmless(text: str, most: int = 16_384) -> str:
    """A whole message that may have several lines: control characters are escaped as above, and later lines are
    indented, so that none looks like a separate message."""
    text = redacted(text)
    if text.isprintable() and len(text) <= most:
        return text
    lines = text[:most].splitlines() or [""]
    clean = ["".join(c if c.isprintable() or c == "\t" else _escaped(c) for c in line) for line in lines]
    return "\n    ".join(clean) + ("…" if len(text) > most else "")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
