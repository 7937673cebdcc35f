"""Runs plans of one kind: `python -m tests.simulation.world_search replays --seeds 1000`. With `--planted NAME` it ends
with 0 once a plan finds the bug, else with 1; with `--planted all` it hunts one after another."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from multiprocessing import get_context

from .planting import FOLDER, TREE, bugs, plant
from .searching import CHUNK

WORLDS = {
    "later": ("later_plan", "later"),
    "once": ("once_plan", "duplicating"),
    "replays": ("replay_plan", "replaying"),
    "rewinds": ("rewind_plan", "rewinding"),
    "together": ("together_plan", "together"),
}
"""The module and the function that make the plans of a world. The folder in `planted` has its name."""


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("world", choices=WORLDS)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--planted", default="")
    asked = parser.parse_args()
    if asked.planted != "all":
        return _searched(asked.world, asked.first, asked.seeds, asked.planted)
    command = [sys.executable, "-m", "tests.simulation.world_search", asked.world]
    command += ["--first", str(asked.first), "--seeds", str(asked.seeds), "--planted"]
    # a bug can't be taken out of its process
    return max([subprocess.run([*command, name], cwd=TREE).returncode for name in bugs(FOLDER / asked.world)])


def _searched(world: str, first: int, seeds: int, planted: str) -> int:
    broken = 0
    for found in _in_parts(world, first, seeds, planted):
        broken += found
        if planted and found:
            return 0
    print(f"{planted or world}: {seeds} seeds, {broken} broke a promise", flush=True)
    return 1 if planted or broken else 0


def _in_parts(world: str, first: int, seeds: int, planted: str) -> Iterator[int]:
    """How many seeds broke a promise, for some seeds after the others: the first ones in this process, which is soon
    done where a bug is found soon, the rest in one of their own each time."""
    parts = [(world, n, min(CHUNK, first + seeds - n), planted) for n in range(first, first + seeds, CHUNK)]
    yield from (_broken(*part) for part in parts[:1])
    for part in parts[1:]:
        with get_context("spawn").Pool(1) as pool:
            yield pool.apply(_broken, part)


def _broken(world: str, first: int, seeds: int, planted: str) -> int:
    """How many of these seeds break a promise; with a bug, the search ends with the first."""
    if planted:
        plant(bugs(FOLDER / world)[planted])
    from .oracle import violations
    from .world import run

    module, function = WORLDS[world]
    plan_of = getattr(import_module(f"{__package__}.{module}"), function)
    broken = 0
    for seed in range(first, first + seeds):
        plan = plan_of(seed)
        if found := violations(plan, run(plan)):
            print(f"{planted or world}: seed {seed}, {time.process_time():.1f} s of CPU: {found[0]}", flush=True)
            broken += 1
            if planted:
                break
    return broken


if __name__ == "__main__":
    sys.exit(main())
