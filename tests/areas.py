"""Areas: tests of what changes seldom, each with the paths on which it depends (tests/areas.toml).

`@pytest.mark.area(name="sdk")` puts a test into one. `make test` leaves them all out; `make test-areas SINCE=REV` runs
those of which a path has changed since then.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALWAYS = ("tests/areas.toml", "requirements/dev.txt")
"""What may change any of them."""


@cache
def areas() -> Mapping[str, Sequence[str]]:
    """The paths of each area."""
    return {name: area["paths"] for name, area in tomllib.loads((ROOT / "tests/areas.toml").read_text()).items()}


def is_package(path: str) -> bool:
    """Whether it is the name of a package, which may lie anywhere."""
    return path.startswith("gateway_") and "/" not in path


def touched(changed: Iterable[str]) -> list[str]:
    """The areas that depend on one of these files."""
    files = [Path(file) for file in changed]
    return [name for name, paths in areas().items() if any(_holds(path, files) for path in (*paths, *ALWAYS))]


def expression(names: Iterable[str]) -> str:
    """For pytest's `-m`; empty without names."""
    return " or ".join(f"area(name='{name}')" for name in names)


def changed_since(revision: str) -> list[str]:
    """The files that differ from the revision's, those that nobody has committed included."""
    command = ["git", "diff", "--name-only", revision, "--"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def _holds(path: str, files: Iterable[Path]) -> bool:
    return any(path in file.parts if is_package(path) else file.is_relative_to(path) for file in files)


# -- pytest's hooks -----------------------------------------------------------------------------------------------


def pytest_itemcollected(item: pytest.Item) -> None:
    """A name that no table has would be run by nobody."""
    for mark in item.iter_markers("area"):
        if mark.kwargs.get("name") not in areas():
            raise pytest.UsageError(f"{item.nodeid}: no area {mark.kwargs.get('name')!r} in tests/areas.toml")


if __name__ == "__main__":
    print(expression(touched(changed_since(sys.argv[1]))))
