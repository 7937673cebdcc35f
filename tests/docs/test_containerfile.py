"""The image's build sees all that the package is made of."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_that_the_wheel_is_made_of_is_copied() -> None:
    copied: set[str] = set()
    for line in (ROOT / "Containerfile").read_text().splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--"):
            copied |= set(words[1:-1])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    hook = wheel["hooks"]["custom"]["path"]
    assert hook in copied
    needed = [*wheel["packages"], project["project"]["readme"], "pyproject.toml"]
    assert [path for path in needed if path.split("/")[0] not in copied] == []
