"""Runs plans with batches and held events: `python -m tests.simulation.together_search --seeds 1000`. With `--planted
NAME` it ends with 0 once a plan finds the bug, else with 1."""

from __future__ import annotations

import argparse
import sys

from .planting import FOLDER, bugs, plant


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--planted", default="")
    asked = parser.parse_args()
    if asked.planted:
        plant(bugs(FOLDER / "together")[asked.planted])
    from .oracle import violations
    from .together_plan import together
    from .world import run

    broken = 0
    for seed in range(asked.first, asked.first + asked.seeds):
        plan = together(seed)
        if found := violations(plan, run(plan)):
            print(f"seed {seed}: {found[0]}", flush=True)
            broken += 1
            if asked.planted:
                return 0
    print(f"{asked.seeds} seeds, {broken} broke a promise")
    return 1 if asked.planted or broken else 0


if __name__ == "__main__":
    sys.exit(main())
