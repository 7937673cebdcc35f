"""Reports of faults: as text for people, as JSON for tools."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from .errors import Fault

_RED, _YELLOW, _BOLD, _DIM, _END = "\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[2m", "\x1b[0m"


def near(word: str, words: Iterable[str]) -> str:
    """The remedy for a misspelt word, "" if no word is similar."""
    found = difflib.get_close_matches(word, list(words), 1)
    return f"did you mean `{found[0]}`?" if found else ""


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """Sorted by file and line, each once."""
    return sorted(dict.fromkeys(faults), key=lambda f: (f.file, f.line, f.path))


def render(faults: Sequence[Fault], color: bool = False, warnings: Sequence[Fault] = (), tail: str = "") -> str:
    """The report: one paragraph a fault (`file:line: path: message`, the remedy indented), warnings after the faults,
    and a count at the end, with `tail` in its line. It ends with a line break."""
    lines: list[str] = []
    for group, word, ink in ((faults, "", _RED), (warnings, "warning: ", _YELLOW)):
        for fault in in_order(group):
            lines += _paragraph(fault, word, ink if color else "")
    lines.append(", ".join(filter(None, (_count(faults, warnings), tail))))
    return "\n".join(lines) + "\n"


def _paragraph(fault: Fault, word: str, ink: str) -> list[str]:
    bold, dim, end = (_BOLD, _DIM, _END) if ink else ("", "", "")
    where = _one_line(f"{fault.file}:{fault.line}" if fault.line else fault.file)
    head = f"{bold}{where}:{end} " if where else ""
    path = f"{bold}{_one_line(fault.path)}{end}: " if fault.path else ""
    lines = [f"{head}{ink}{word}{end}{path}{ink}{_one_line(fault.message)}{end}"]
    if fault.remedy:
        lines.append(f"    {dim}{_one_line(fault.remedy)}{end}")
    return lines


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _count(faults: Sequence[Fault], warnings: Sequence[Fault]) -> str:
    files = len({f.file for f in faults})
    found = _number(len(set(faults)), "fault") if faults else "no faults"
    where = f" in {_number(files, 'file')}" if files > 1 else ""
    also = f", {_number(len(set(warnings)), 'warning')}" if warnings else ""
    return f"{found}{where}{also}"


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def to_json(faults: Sequence[Fault], warnings: Sequence[Fault] = ()) -> dict[str, Any]:
    """The report for tools: {"ok", "faults": […], "warnings": […]}, each with file, line, path, message, remedy."""
    return {"ok": not faults, "faults": [*map(_json, in_order(faults))], "warnings": [*map(_json, in_order(warnings))]}


def _json(f: Fault) -> dict[str, Any]:
    return {"file": f.file, "line": f.line or None, "path": f.path, "message": f.message, "remedy": f.remedy}
