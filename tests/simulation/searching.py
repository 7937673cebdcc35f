"""The processes of a search: each runs its seeds and prints a line of JSON for each. Its arguments are the first seed,
the end, the step, the name of a planted bug or nothing, and a text that plans must have or nothing."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

from . import planting

if TYPE_CHECKING:
    from .history import History
    from .oracle import Violation
    from .plan import Plan


CHUNK = 25
"""Seeds for each process: tasks that a kill left behind stay in the memory of their process, and cost time."""


class Spins(BaseException):
    """A run takes so long that it must have got caught."""


def _spins(number: int, frame: FrameType | None) -> None:
    raise Spins


def checked(plan: Plan, cpu_s: float = 60.0) -> tuple[History, list[Violation]]:
    """Runs a plan and checks its history. A run that takes more CPU than this has broken a promise, too."""
    from .history import Broken, History
    from .oracle import violations
    from .world import run

    before = signal.signal(signal.SIGPROF, _spins)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        history = run(plan)
    except Spins:
        history = History()
        history.add(Broken(plan.seconds, f"the run takes more than {cpu_s:g} s of CPU"))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return history, violations(plan, history)


def result_of(plan: Plan) -> dict[str, Any]:
    """The result of a seed, as a search counts it."""
    from .history import Answered, Arrived, Happened

    began = time.process_time()
    history, broken = checked(plan)
    return {
        "seed": plan.seed,
        "broken": [str(v) for v in broken],
        "promises": [v.promise for v in broken],
        "seconds": history.records[-1].at if history.records else 0.0,
        "faults": sum(1 for f in history.of(Happened) if f.effect != "nothing"),
        "events": sum(len(plan.sends[a.send].events) for a in history.of(Answered) if a.status in (200, 202, 204)),
        "attempts": sum(1 for _ in history.of(Arrived)),
        "cpu_s": time.process_time() - began,
    }


def story(given: argparse.Namespace) -> int:
    """Runs one plan, shrinks it if wanted, and prints its story."""
    if given.planted:
        planting.plant(planting.bugs()[given.planted])
    from .plan import Plan
    from .shrink import shrunk
    from .story import tell

    plan = Plan.of(given.story) if given.story is not None else Plan.read(given.plan.read_text())
    history, broken = checked(plan)
    if given.shrink and broken:
        wanted = broken[0].promise
        plan = shrunk(plan, lambda smaller: any(v.promise == wanted for v in checked(smaller)[1]), given.runs)
        history, broken = checked(plan)
        given.shrink.write_text(plan.json() + "\n")
    print(tell(plan, history, broken, whole=given.whole))
    return 1 if broken else 0


def main(first: int, end: int, step: int, planted: str, having: str) -> None:
    """Runs the seeds `first`, `first + step`, … before `end`: `first`, and those whose plans have the text."""
    if planted:
        planting.plant(planting.bugs()[planted])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody reads the results any more
    _run(first)  # in this process, which then has imported all modules and built all validators
    gc.collect()
    gc.freeze()
    seeds = range(first + step, end, step)
    for begin in range(0, len(seeds), CHUNK):
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            if status:
                sys.exit(1)
            continue
        for seed in seeds[begin : begin + CHUNK]:
            _run(seed, having)
            gc.freeze()  # what a kill left behind is not looked at again
        os._exit(0)


def _run(seed: int, having: str = "") -> None:
    from .plan import Plan

    plan = Plan.of(seed)
    if having in plan.json():
        print(json.dumps(result_of(plan)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
