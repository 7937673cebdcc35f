"""The planted bugs fit the code, and break promises that the pages make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.planting import TREE, Bug, bugs

BUGS = bugs()


def plain(text: str) -> str:
    """Without line breaks and the bars of a table's or a picture's lines, in lower case."""
    return " ".join(text.split()).lower()


def page(name: str) -> str:
    folder, _, file = name.rpartition("/")
    return plain((TREE / "docs" / (folder or "discussion") / f"{file}.md").read_text())


def fits_and_quotes(bug: Bug) -> None:
    """The bug can be planted in the code of now, and its promise stands on the page that it names."""
    texts: dict[str, str] = {}
    for change in bug.changes:
        texts[change.file] = change.applied(texts.get(change.file) or Path(TREE, change.file).read_text())
    for file, text in texts.items():
        compile(text, file, "exec")
    assert plain(bug.promise) in page(bug.page), "the page does not say this"


def the_search_finds(world: str, name: str, seeds: int = 300) -> None:
    """A search over so many plans of this world ends with the planted bug found."""
    command = [sys.executable, "-m", "tests.simulation.world_search", world]
    command += ["--seeds", str(seeds), "--planted", name]
    ran = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_there_is_one_for_each_promise() -> None:
    assert len(BUGS) >= 25


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_fits_the_code_and_quotes_the_promise(name: str) -> None:
    fits_and_quotes(BUGS[name])
    assert BUGS[name].broken
