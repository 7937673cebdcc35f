"""Figures in a page that is otherwise written by hand: between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "discussion" / "proof.md"
sys.path.append(str(ROOT))

from tests.soak.report import published  # noqa: E402


def _soak() -> Iterator[str]:
    file = ROOT / "tests" / "soak" / "runs.json"
    return published(json.loads(file.read_text())) if file.exists() else iter(("No run is published yet.",))


BLOCKS: dict[str, Callable[[], Iterator[str]]] = {"soak": _soak}
"""Name -> the lines of its block."""


def _filled(new: str, block: re.Match[str]) -> str:
    return block[1] + new + block[2]


def proof() -> str:
    """The page with the figures of today. Raises `LookupError` if a block is not there."""
    text = PAGE.read_text()
    for name, lines in BLOCKS.items():
        new = "\n".join(["", "", *lines(), "", ""])
        block = re.compile(f"(<!-- {name}: begin -->).*?(<!-- {name}: end -->)", re.DOTALL)
        text, found = block.subn(partial(_filled, new), text)
        if found != 1:
            raise LookupError(f"{PAGE}: the block {name!r} is there {found} times")
    return text
