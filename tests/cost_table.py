"""What tests cost, by the table in the tree (tests/cost.toml), and what they may cost (tests/cost_budget.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("cost.toml")
BUDGET = Path(__file__).with_name("cost_budget.toml")
MARGIN = 1.5
_USUAL = 0.03
"""What a test costs in a file that is not in the table."""


def load(file: Path) -> dict[str, float]:
    """The budget: CPU seconds by folder."""
    return {folder: float(used) for folder, used in tomllib.loads(file.read_text())["folders"].items()}


def over(folders: Mapping[str, float], budget: Mapping[str, float]) -> list[str]:
    """A line for each folder that takes too much."""
    return [
        f"{folder} takes {used:.0f} s of CPU time, may take {MARGIN} times {budget.get(folder, 0):g} s: {BUDGET.name}"
        for folder, used in sorted(folders.items())
        if used > MARGIN * budget.get(folder, 0)
    ]


@cache
def known() -> Mapping[str, float]:
    """CPU seconds of files, as the table in the tree has them."""
    return tomllib.loads(TABLE.read_text())["files"] if TABLE.exists() else {}


def shard(tests: Mapping[str, int], number: int, count: int) -> set[str]:
    """The files of one of so many shards; `tests` has the number of tests of each file."""
    costs = {file: known().get(file, _USUAL * tests[file]) for file in tests}
    shards: list[tuple[float, set[str]]] = [(0.0, set()) for _ in range(count)]
    for file in sorted(costs, key=lambda file: (-costs[file], file)):
        least = min(range(count), key=lambda n: shards[n][0])
        shards[least] = (shards[least][0] + costs[file], shards[least][1] | {file})
    return shards[number - 1][1]
