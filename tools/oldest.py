"""`requirements/oldest.txt`: the oldest version of every dependency that pyproject.toml allows."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
HEAD = """\
# The lower bounds of pyproject.toml, written by `make docs`; do not edit. `make oldest` runs the quick tests with them.
# What these need in turn is the newest that fits.
"""


def oldest() -> str:
    """One pin for each dependency, extra and development tool, in the order of their names."""
    return HEAD + "".join(f"{line}\n" for line in sorted(set(_pins()), key=str.lower))


def _pins() -> Iterator[str]:
    project, dev = (tomllib.loads((ROOT / file).read_text()) for file in ("pyproject.toml", "dev/pyproject.toml"))
    groups = [
        project["project"]["dependencies"],
        *(group for each in (project, dev) for group in each["project"]["optional-dependencies"].values()),
        project["dependency-groups"]["dev"],
    ]
    for text in (text for group in groups for text in group):
        wanted = Requirement(text)
        bounds = [Version(s.version) for s in wanted.specifier if s.operator == ">="]
        if wanted.name in ("tidegate", "tidegate-dev"):  # an extra that contains other extras
            continue
        pin = f"=={max(bounds)}" if bounds else str(wanted.specifier)
        yield f"{wanted.name}{pin}{f'; {wanted.marker}' if wanted.marker else ''}"
