"""Writes the generated files (`make docs`). `--check` only lists the stale ones, and exits with 1 if there are any."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import docs_pages

ROOT = Path(__file__).parents[1]


def _unknown() -> list[str]:
    """Plugins of this tree that the installation, from which the pages are made, doesn't know yet."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["tidegate"]
    return sorted(declared.keys() - entry_points(group="tidegate").names)


def main(arguments: list[str]) -> int:
    if unknown := _unknown():
        print(f"plugins that are not installed: {', '.join(unknown)}; install the tree again:")
        print(f"    {sys.executable} -m pip install --no-deps --no-build-isolation -e {ROOT} -e {ROOT}/dev")
        return 1
    check = "--check" in arguments
    stale = []
    for name, make in docs_pages.PAGES.items():
        file = ROOT / name
        text = make()
        if file.exists() and file.read_text() == text:
            continue
        stale.append(name)
        if not check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    if check and stale:
        print(f"stale: {', '.join(stale)}; run `make docs` and commit what it writes")
        return 1
    print(f"written: {', '.join(stale)}" if stale else "all generated files are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
