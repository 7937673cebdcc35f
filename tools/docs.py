"""Writes the generated reference pages (`make docs`). `--check` only says which are stale, and ends 1 where any is."""

from __future__ import annotations

import sys
from pathlib import Path

import docs_pages

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    stale = []
    for name, make in docs_pages.PAGES.items():
        file = REFERENCE / name
        text = make()
        if file.exists() and file.read_text() == text:
            continue
        stale.append(f"docs/reference/{name}")
        if not check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    if check and stale:
        print(f"stale: {', '.join(stale)}; run `make docs` and commit what it writes")
        return 1
    print(f"written: {', '.join(stale)}" if stale else "all reference pages are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
