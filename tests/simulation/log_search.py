"""Searches for faults of the log on a simulated disk: `python -m tests.simulation.log_search --seeds 1000`.

`--planted NAME` plants a bug of `planted/log/` first (`all`: one after another, each in a process of its own), and says
after how many runs and seconds of CPU it was found.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from .planting import FOLDER, TREE, bugs, plant


def searched(first: int, count: int, folder: Path) -> tuple[int, str] | None:
    """The first seed whose run breaks a promise, with what it breaks; None if none does."""
    from .log_run import run_of_seed

    for seed in range(first, first + count):
        try:
            run_of_seed(folder / str(seed), seed, storm=seed % 2 == 1, once=seed % 3 == 0)
        except Exception as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            return seed, f"{type(e).__name__} in {where.name}: {e}"
        finally:
            shutil.rmtree(folder / str(seed), ignore_errors=True)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns how many promises were broken, or how many planted bugs were not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--planted")
    given = parser.parse_args(arguments)
    if given.planted == "all":
        return sum(_hunted(name, given.first, given.seeds) for name in bugs(FOLDER / "log"))
    if given.planted:
        plant(bugs(FOLDER / "log")[given.planted])
    logging.disable(logging.CRITICAL)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        found = searched(given.first, given.seeds, Path(folder))
    told = f"{given.planted or 'the log'}: {time.process_time():.1f} s of CPU"
    if found is None:
        print(f"{told}, {given.seeds} runs, nothing found", flush=True)
        return int(bool(given.planted))
    print(f"{told}, run {found[0] - given.first + 1} (seed {found[0]}): {found[1][:300]}", flush=True)
    return int(not given.planted)


def _hunted(name: str, first: int, seeds: int) -> int:
    command = [sys.executable, "-m", "tests.simulation.log_search", "--planted", name]
    return subprocess.run([*command, "--first", str(first), "--seeds", str(seeds)], cwd=TREE).returncode


if __name__ == "__main__":
    sys.exit(main())
