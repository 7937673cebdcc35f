"""What the benches `*_loops.py` share: events, how a component is driven, and the table of cases beside their loops.

A case is called "sink, binary": what is measured, and the mode. It is compared with the loop of the same mode.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome, Sink

DATA = json.dumps({"order": 17, "lines": [{"sku": "a-1", "count": 2}] * 4}).encode()
ATTRIBUTES = {
    "specversion": "1.0",
    "source": "/shop/orders",
    "type": "com.example.order.placed",
    "time": "2026-01-31T08:00:00.123456Z",
    "subject": "customer/4711",
    "datacontenttype": "application/json",
}
GOAL = "<= 1.5x the loop"
BESIDE = {"sink": "loop out", "source": "loop in"}
CASES = [f"{what}, {mode}" for mode in ("binary", "structured") for what in ("loop out", "sink", "loop in", "source")]
WARM = 100
"""The events of a first run that does not count: what is imported at the first use."""

Figures = dict[str, float]


def event(n: int) -> Event:
    return Event({**ATTRIBUTES, "id": f"{n:08d}"}, DATA)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - costs less than an event for each answer
        await anyio.sleep(0.002)


class Counting:
    """An intake that takes everything at once."""

    stores = True
    deduplicates = False

    def __init__(self) -> None:
        self.count = 0

    def accept(self, events: Sequence[Event], done: Callable[[BaseException | None], None]) -> None:
        self.count += len(events)
        done(None)

    def withdraw(self, partition: int) -> Sequence[int]:
        return ()


async def read_with(source: Any, count: int, started: Callable[[], None] = lambda: None) -> None:
    """Runs a source until it has read so many events. `started` is called once it works."""
    intake = Counting()
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        started()
        await until(lambda: intake.count >= count)
        await source.stop()
        tasks.cancel_scope.cancel()


async def send_with(sink: Sink, events: Sequence[Event], window: int) -> None:
    """Runs a sink until it has delivered all events, at most `window` at once."""
    ended = 0

    def done(outcome: Outcome) -> None:
        nonlocal ended
        assert outcome.delivered, outcome
        ended += 1

    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        for n, one in enumerate(events):
            sink.send(one, 30, done)
            if n - ended >= window:
                await until(lambda: n - ended < window // 2)  # noqa: B023
        await until(lambda: ended == len(events))
        await sink.stop()
        tasks.cancel_scope.cancel()


@contextmanager
def measured(count: int) -> Iterator[Figures]:
    """Fills in the figures of what happens inside: CPU microseconds of this process an event, and events a second."""
    figures: Figures = {}
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    yield figures
    cpu, took = time.process_time() - cpu, time.perf_counter() - began
    figures.update(cpu_us=cpu * 1e6 / count, events_per_s=count / took)


def beside(case: str) -> str:
    """The loop that a case is compared with, "" for none."""
    what, _, mode = case.partition(", ")
    return f"{BESIDE[what]}, {mode}" if what in BESIDE else ""


def arguments(about: str | None, events: int = 20_000) -> argparse.ArgumentParser:
    """The command line of a bench."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=events)
    parser.add_argument("--json", default="")
    return parser


def compare(
    given: argparse.Namespace,
    cases: Sequence[str],
    play: Callable[[str, int], Figures],
    beside: Callable[[str], str] = beside,
) -> None:
    """Plays all cases in turn, and prints the medians. `play` runs a case with so many events."""
    for case in cases:
        play(case, WARM)
    results: dict[str, list[Figures]] = {case: [] for case in cases}
    for _ in range(given.rounds):
        for case in cases:
            results[case].append(play(case, given.events))
    medians = {
        case: {key: statistics.median(r[key] for r in runs) for key in runs[0]} for case, runs in results.items()
    }
    table = Table("case", "CPU us/event", "events/s", "beside the loop", "goal")
    for case, row in medians.items():
        other = beside(case)
        ratio = f"{row['cpu_us'] / medians[other]['cpu_us']:.2f}x" if other else ""
        table.add_row(case, f"{row['cpu_us']:.1f}", f"{row['events_per_s']:,.0f}", ratio, GOAL if other else "")
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)
    if given.json:
        Path(given.json).write_text(json.dumps(medians, indent=1) + "\n")
