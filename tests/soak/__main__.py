"""`make soak HOURS=8`, `make soak MINUTES=10`: gateways on real parts, under load; a fault comes every few seconds.

Ends with 0 if every promise was kept, 1 if one was broken, 2 if the run could not begin, 3 if something hung, and 130
if it was interrupted and nothing was broken until then. Ctrl-C ends a run in order, with its report; a second one at
once.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.soak.conductor import Conductor
from tests.soak.faults import ALL
from tests.soak.figures import count, write
from tests.soak.plots import write_page
from tests.soak.world import Options, World

KEPT, BROKEN, NOT_BEGUN, HUNG, INTERRUPTED = 0, 1, 2, 3, 130


def soak(options: Options, *, interruptible: bool = False, quiet: bool = False) -> int:
    """A whole run, with its report; the exit code. Raises what keeps it from beginning."""

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr, flush=True)

    began = time.monotonic()
    say(f"starting: gateways{', Kafka' * options.kafka}{', Spark' * bool(options.tables)}; folder {options.folder}")
    with World(options) as world:
        say(f"all runs after {time.monotonic() - began:.0f} s; disk: {world.disk.kind}")
        conductor = Conductor(world, say)
        if interruptible:
            _interrupts(conductor)
        course = conductor.play()
        say("checking the ledger")
        figures = count(world, course)
        write(figures, course, world)
        page = write_page(figures, course, world.starts, world.folder)
    shutil.rmtree(world.ledger, ignore_errors=True) if not course.broken else None
    for what in course.broken:
        say(f"BROKEN: {what}")
    say(
        f"{figures['seconds']:,} s, {figures['faults']:,} faults, {figures['events']:,} accepted events, "
        f"{figures['lost']:,} lost; the report: {page}"
    )
    if course.hangs:
        return HUNG
    if course.broken:
        return BROKEN
    return INTERRUPTED if course.interrupted else KEPT


def _interrupts(conductor: Conductor) -> None:
    """The first of these signals ends the run in order, a second Ctrl-C at once."""

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        conductor.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=0)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument(
        "--folder", type=Path, help="for the report; new or empty (default: soak-DATE in the current one)"
    )
    parser.add_argument(
        "--rate", type=float, default=500, help="events a second; 0: as many as it takes (default: 500)"
    )
    parser.add_argument(
        "--every", type=float, default=4, help="mean seconds between two faults, of each of two streams"
    )
    parser.add_argument("--seed", type=int, default=1, help="the order of the faults follows from it")
    parser.add_argument("--disk-mb", type=int, default=1024, help="size of the gateway's own disk")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--tables", choices=["both", "log", "kafka", "none"], default="both", help="which Spark tables")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="only this fault; again for more")
    parser.add_argument("--list", action="store_true", help="list the faults")
    parser.add_argument("--batch", type=int, default=25, help="events in one request")
    parser.add_argument("--connections", type=int, default=4, help="connections of each route")
    a = parser.parse_args(arguments)
    if a.list:
        print("\n".join(fault.name for fault in ALL))
        return KEPT
    if unknown := set(a.only) - {fault.name for fault in ALL}:
        parser.error(f"no such fault: {', '.join(unknown)}; --list lists them")
    seconds = a.hours * 3600 + a.minutes * 60
    folder = a.folder or Path(time.strftime("soak-%Y-%m-%d-%H%M%S"))
    if seconds <= 0:
        parser.error("say how long: make soak HOURS=8, or MINUTES=10")
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"{folder} is not empty")
    tables = {"both": ("log", "kafka"), "none": ()}.get(a.tables, (a.tables,))
    typed = [word for i, word in enumerate(arguments) if "--folder" not in arguments[max(0, i - 1) : i + 1]]
    options = Options(
        seconds=seconds,
        folder=folder,
        rate=a.rate,
        every_s=a.every,
        seed=a.seed,
        kafka=not a.no_kafka,
        tables=tables,
        disk_mb=a.disk_mb,
        capacity=min(1 << 28, int(max(1 << 20, seconds * (a.rate or 20_000) * 1.2))),
        only=tuple(a.only),
        connections=a.connections,
        batch=a.batch,
        command=shlex.join(["python", "-m", "tests.soak", *typed]),
    )
    try:
        return soak(options, interruptible=True)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as e:
        print(f"soak: {type(e).__name__}: {e}", file=sys.stderr)
        return NOT_BEGUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
