"""Pages, messages, docstrings, comments and tests use the usual words: `banned_words.toml` lists those to avoid."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("banned_words.toml")
AVOID: list[dict[str, Any]] = tomllib.loads(LIST.read_text())["avoid"]
FOLDERS = ("gateway_core", "plugins", "dev", "docs", "configs", "contrib", "tools", "tests")
KINDS = {".py", ".md", ".toml", ".yaml", ".yml", ".html", ".js", ".tmpl", ".java", ".svg"}
LEFT_OUT = {
    "CHANGELOG.md",  # what was said when a change was made
    "LICENSE",
    "tests/docs/banned_words.toml",
    "tests/docs/test_words.py",
    # generated from docstrings, names of tests and the catalogue, which are read
    *(f"docs/reference/{page}.md" for page in ("cli", "components", "config", "hooks", "metrics", "transports")),
    *("docs/conformance.md", "docs/discussion/code-map.md", "tests/contract/public.txt"),
}


def found(text: str, name: str) -> Iterator[str]:
    """Where the text has a word or phrase of the list."""
    flat = " ".join(text.lower().replace("# ", "").split())  # phrases are found across lines, also of comments
    for avoid in AVOID:
        if name in avoid.get("except", ()):
            continue
        for phrase in avoid["words"]:
            if phrase in flat:  # far quicker than the expression, and seldom so
                for match in re.finditer(rf"\b{phrase}\b", flat):
                    around = flat[max(match.start() - 30, 0) : match.end() + 30]
                    yield f"{name}: {phrase!r} in {around!r}: say {avoid['say']!r}"


@pytest.mark.parametrize(
    "text",
    [
        "A worker that is\n    away",
        "# it goes\n# on by itself",
        "Nothing is Mended.",
        "waits in its lane",
    ],
)
def test_a_word_to_avoid_is_found_also_across_lines(text: str) -> None:
    assert len(list(found(text, "a.py"))) == 1


def test_a_part_of_another_word_is_not_found() -> None:
    assert list(found("Planets in the middle of the roadmap recommend sufficient changes", "a.py")) == []


@pytest.mark.slow
def test_every_text_uses_the_usual_words() -> None:
    wrong: list[str] = []
    for path in (*ROOT.glob("*"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))):
        name = path.relative_to(ROOT).as_posix()
        if name not in LEFT_OUT and path.suffix in KINDS and path.is_file():
            wrong += found(path.read_text(errors="replace"), name)
    assert not wrong, "\n".join(wrong)
