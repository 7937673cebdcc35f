"""Runs plans with delays and schedules: `python -m tests.simulation.later_search --seeds 1000`. With `--planted NAME`
it ends with 0 once a plan finds the bug, else with 1; with `--planted all` it hunts one after another."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from .planting import FOLDER, TREE, bugs, plant
from .searching import CHUNK


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--planted", default="")
    asked = parser.parse_args()
    if asked.planted == "all":
        return min(1, sum(_found(asked.first, asked.seeds, name) for name in bugs(FOLDER / "later")))
    if asked.seeds > CHUNK:
        return _found(asked.first, asked.seeds, asked.planted)
    return int(_searched(asked.first, asked.seeds, asked.planted) != bool(asked.planted))


def _found(first: int, seeds: int, planted: str) -> int:
    """The exit code of a search in processes of some seeds each; it ends when it has found something."""
    command = [sys.executable, "-m", "tests.simulation.later_search", "--planted", planted]
    for begin in range(first, first + seeds, CHUNK):
        count = min(CHUNK, first + seeds - begin)
        code = subprocess.run([*command, "--first", str(begin), "--seeds", str(count)], cwd=TREE).returncode
        if code == int(not planted):
            return code
    print(f"{planted or 'nothing planted'}: {seeds} seeds, nothing found", flush=True)
    return int(bool(planted))


def _searched(first: int, seeds: int, planted: str) -> bool:
    """Whether a seed breaks a promise."""
    if planted:
        plant(bugs(FOLDER / "later")[planted])
    from .later_plan import later
    from .oracle import violations
    from .world import run

    for seed in range(first, first + seeds):
        plan = later(seed)
        if found := violations(plan, run(plan)):
            print(f"{planted or 'later'}: seed {seed}, {time.process_time():.1f} s of CPU: {found[0]}", flush=True)
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
