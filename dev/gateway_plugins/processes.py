"""Runs the programs of a check."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway_core.contract.one_line import one_line

LIMIT_S = 600.0
"""How long a program may take; in seconds."""


@dataclass(frozen=True)
class Ran:
    """`code` is the exit code, `out` standard output, `err` standard error."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The line that most likely says what went wrong."""
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        return one_line((errors or lines or [f"exit code {self.code}"])[-1])


def ran(
    command: Sequence[str], limit_s: float = LIMIT_S, *, cwd: Path | None = None, more: Mapping[str, str] | None = None
) -> Ran:
    """Runs a program in an environment without this one's Python settings, and waits for its end."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "PIP_NO_INPUT": "1", **(more or {})}
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Ran(-1, "", f"error: no end after {limit_s:g} s")
    return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
