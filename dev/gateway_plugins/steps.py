"""What a check found, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Result = Literal["ok", "warning", "failed", "skipped"]


@dataclass
class Step:
    """One step of a check. `about` says in a few words what was looked at, `failures` and `warnings` what is wrong."""

    name: str
    about: str = ""
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    skipped: bool = False

    @property
    def result(self) -> Result:
        if self.failures:
            return "failed"
        if self.skipped:
            return "skipped"
        return "warning" if self.warnings else "ok"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        lists = {"failures": self.failures, "warnings": self.warnings}
        return {"name": self.name, "result": self.result, "about": self.about, **lists}


def counted(count: int, what: str) -> str:
    """A number of things: "1 option", "2 options"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class Stopped(Exception):
    """A step failed so that the ones after it make no sense."""
