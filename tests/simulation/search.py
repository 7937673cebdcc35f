"""Searches seeds for a run that breaks a promise: `python -m tests.simulation.search --seeds 20000`.

Each process takes every n-th seed, runs its plan and checks the history. What breaks a promise is shrunk and told as a
story. `--planted NAME` does the same with a bug planted in the product, and says how long it took to find it.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

TREE = Path(__file__).parents[2]
EVERY_S = 10.0


@dataclass
class Totals:
    """What was searched so far."""

    seeds: int = 0
    hours: float = 0.0
    faults: int = 0
    events: int = 0
    attempts: int = 0
    cpu_s: float = 0.0
    failing: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def add(self, result: dict[str, Any]) -> None:
        """Counts the result of one seed."""
        self.seeds += 1
        self.hours += result["seconds"] / 3600
        self.faults += result["faults"]
        self.events += result["events"]
        self.attempts += result["attempts"]
        self.cpu_s += result["cpu_s"]
        if result["broken"]:
            self.failing.append(result)

    def __str__(self) -> str:
        cpu = max(self.cpu_s, 1e-9)
        return (
            f"{self.seeds:,} seeds, {self.hours:,.1f} simulated hours, {self.faults:,} faults, {self.events:,} events"
            f" accepted, {self.attempts:,} attempts in {self.cpu_s:,.0f} s of CPU ({time.monotonic() - self.began:,.0f}"
            f" s): {self.seeds / cpu:,.1f} seeds, {self.hours * 60 / cpu:,.1f} simulated minutes,"
            f" {self.faults / cpu:,.0f} faults and {self.events / cpu:,.0f} events a second of CPU;"
            f" {len(self.failing):,} seeds break promises"
        )


def searched(first: int, seeds: int, jobs: int, planted: str = "", having: str = "") -> Generator[dict[str, Any]]:
    """The results of seeds, in any order, from `jobs` processes. Closing the generator ends them. With
    `having`, only of those whose plans have this text (and of the first of each process)."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    jobs = max(1, min(jobs, seeds))
    selector = selectors.DefaultSelector()
    processes = []
    for job in range(jobs):
        command = [sys.executable, "-m", "tests.simulation.searching", str(first + job), str(first + seeds), str(jobs)]
        processes.append(
            subprocess.Popen([*command, planted, having], stdout=subprocess.PIPE, cwd=TREE, env=environment, text=True)
        )
        assert processes[-1].stdout is not None
        selector.register(processes[-1].stdout, selectors.EVENT_READ)
    try:
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    yield json.loads(line)
                else:
                    selector.unregister(key.fileobj)
        for process in processes:
            if process.wait():
                raise RuntimeError(f"a search ended with {process.returncode}")
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        selector.close()


def search(first: int, seeds: int, jobs: int, *, most: int, having: str = "") -> Totals:
    """Searches seeds until `most` of them have broken promises. Ctrl-C ends it with what it has."""
    totals = Totals()
    then = time.monotonic() + EVERY_S
    try:
        for result in searched(first, seeds, jobs, having=having):
            totals.add(result)
            if result["broken"]:
                print(f"seed {result['seed']}:", *result["broken"][:3], sep="\n  ", flush=True)
            if time.monotonic() > then:
                then = time.monotonic() + EVERY_S
                print(totals, file=sys.stderr, flush=True)
            if len(totals.failing) >= most:
                break
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return totals


@dataclass
class Hunt:
    """How a planted bug was found."""

    name: str
    seed: int | None
    seeds: int
    cpu_s: float
    promises: list[str]

    def __str__(self) -> str:
        found = (
            f"seed {self.seed}, {self.cpu_s:6.1f} s of CPU" if self.seed is not None else f"not in {self.seeds} seeds"
        )
        return f"{self.name:45} {found:32} {', '.join(self.promises)}"


def hunted(name: str, *, first: int, seeds: int, jobs: int = 1, cpu_s: float = 600.0, having: str = "") -> Hunt:
    """Searches for a planted bug until a run breaks a promise, or this much CPU is used; `having`: see `searched`."""
    hunt = Hunt(name, None, 0, 0.0, [])
    with closing(searched(first, seeds, jobs, name, having)) as results:
        for result in results:
            hunt.seeds += 1
            hunt.cpu_s += result["cpu_s"]
            if result["broken"]:
                hunt.seed, hunt.promises = result["seed"], sorted(set(result["promises"]))
                break
            if hunt.cpu_s > cpu_s:
                break
    return hunt


def record(hunt: Hunt, file: Path) -> None:
    """Writes a hunt that found its bug into a file like `planted_found.toml`, in the order of names."""
    text, *entries = file.read_text().split("\n[")
    found = {entry.partition("]")[0]: entry.rstrip("\n") for entry in entries}
    promises = json.dumps(hunt.promises)
    found[hunt.name] = f"{hunt.name}]\nseed = {hunt.seed}\ncpu_s = {hunt.cpu_s:.1f}\npromises = {promises}"
    file.write_text("\n\n[".join([text.rstrip("\n"), *(found[name] for name in sorted(found))]) + "\n")


def hunt_all(names: list[str], *, into: Path | None = None, **hunting: Any) -> int:
    """Hunts planted bugs, one after another, and prints how long each took. Returns how many were not found."""
    hunts: list[Hunt] = []
    try:
        for name in names:
            hunts.append(hunted(name, **hunting))
            print(hunts[-1], flush=True)
            if into is not None and hunts[-1].seed is not None:
                record(hunts[-1], into)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    found = [h.cpu_s for h in hunts if h.seed is not None]
    if found:
        print(f"{len(found)} of {len(hunts)} planted bugs found, the median in {median(found):.1f} s of CPU")
    return len(hunts) - len(found)


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser("tests.simulation.search", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    parser.add_argument("--most", type=int, default=20, help="end after this many seeds that break promises")
    parser.add_argument("--having", default="", help="only seeds whose plan, as JSON, has this text (retry_for)")
    parser.add_argument("--planted", help="plant this bug; `all` plants one after another")
    parser.add_argument("--cpu", type=float, default=600.0, help="seconds of CPU for each planted bug")
    parser.add_argument("--record", type=Path, help="write which planted bugs were found into this file")
    parser.add_argument("--story", type=int, help="run this seed alone, and tell it as a story")
    parser.add_argument("--plan", type=Path, help="run the plan of this file alone, and tell it as a story")
    parser.add_argument("--shrink", type=Path, help="shrink what breaks a promise, and write its plan to this file")
    parser.add_argument("--runs", type=int, default=400, help="how many runs shrinking may take")
    parser.add_argument("--whole", action="store_true", help="the story tells everything")
    given = parser.parse_args(arguments)
    if given.story is not None or given.plan is not None:
        if os.environ.get("PYTHONHASHSEED") != "0":
            os.environ["PYTHONHASHSEED"] = "0"
            os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.search", *arguments])
        from . import searching

        return searching.story(given)
    if given.planted:
        from .planting import bugs

        names = list(bugs()) if given.planted == "all" else given.planted.split(",")
        hunting = {
            "first": given.first,
            "seeds": given.seeds,
            "jobs": given.jobs,
            "cpu_s": given.cpu,
            "having": given.having,
        }
        return 1 if hunt_all(names, **hunting, into=given.record) else 0
    totals = search(given.first, given.seeds, given.jobs, most=given.most, having=given.having)
    print(totals)
    if totals.failing:
        print("to see one: python -m tests.simulation.search --shrink FILE --story", totals.failing[0]["seed"])
    return 1 if totals.failing else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
