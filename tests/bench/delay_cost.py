"""What a delay costs: CPU per event of HTTP -> log -> HTTP at once and after a delay, in turns; and what a gateway
takes to start, and in memory, with many events that wait.

Two gateways, alike but for `delay`. Each window sends new events to one of them, and ends when all are delivered. Then,
with `--waiting`, a gateway starts in turns on an empty folder and on one whose trigger has so many events that wait.

    python tests/bench/delay_cost.py --rounds 6 --events 3000
    python tests/bench/delay_cost.py --rounds 0 --waiting 1000000 --starts 5 --folder /tmp/waiting
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from console_cost import cpu_us
from deduplication_cost import send_all
from gateway_log.delay_file import DelayFile, Waiting
from gateway_log.rows import Row
from gateway_testing import GatewayProcess
from measure import bare_server, memory_mb

from gateway_core.contract.event import position_of

CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}
triggers: {t: {subscriber: "%s"%s}}
"""
DELAY_S = 3
SIDES = {"at once": "", "delayed": f", delay: {DELAY_S}s"}
LIMIT_S = 120.0
_STEP = 50_000
DAY_NS = 86_400 * 1_000_000_000


def wait_for(gateway: GatewayProcess, what: str, count: int) -> None:
    """Until the trigger's status says so. Raises `TimeoutError`."""
    end = time.monotonic() + LIMIT_S
    while gateway.trigger("t")[what] != count:
        if time.monotonic() > end:
            raise TimeoutError(f"{what} is not {count}")
        time.sleep(0.25)


def window(gateway: GatewayProcess, first: int, count: int, batch: int) -> float:
    """CPU microseconds for each of `count` events, until all are delivered."""
    before = cpu_us(gateway.pid)
    send_all(gateway.ingress(), first, count, batch, connections=4)
    time.sleep(DELAY_S)  # a question for the status costs as much as some events
    wait_for(gateway, "delivered", first + count)
    return (cpu_us(gateway.pid) - before) / count


def per_event(rounds: int, events: int, batches: list[int], stack: ExitStack, url: str) -> None:
    """Prints the medians of both sides."""
    found = {
        side: stack.enter_context(GatewayProcess(CONFIG % (url, more), folder(stack))) for side, more in SIDES.items()
    }
    sent = dict.fromkeys(SIDES, 0)
    for batch in batches:
        spent: dict[str, list[float]] = {side: [] for side in SIDES}
        for turn in range(-1, rounds):
            for side in list(SIDES)[:: 1 if turn % 2 else -1]:
                count = events * (1 if batch == 1 else 4)
                used = window(found[side], sent[side], count, batch)
                sent[side] += count
                if turn >= 0:
                    spent[side].append(used)
        once, later = (statistics.median(spent[side]) for side in SIDES)
        what = "single" if batch == 1 else f"batches of {batch}"
        print(f"{what}: {once:.1f} us at once, {later:.1f} us delayed: {later / once:.2f}x", flush=True)
    for gateway in found.values():
        gateway.stop()


def fill(path: Path, count: int) -> None:
    """Adds events that are due tomorrow, until so many wait; a run that was cut is continued."""
    file, due = DelayFile(path, position_of(0, 0)), time.time_ns() + DAY_NS
    for first in range(file.count("t") + 1, count + 1, _STEP):
        numbers = range(first, min(first + _STEP, count + 1))
        attributes = (
            b'{"specversion":"1.0","id":"%d","source":"/shop/orders","type":"order.placed"}' % n for n in numbers
        )
        file.add(
            "t", [Waiting(Row(n, 1, 0, None, a, b"x" * 200), due + n) for n, a in zip(numbers, attributes, strict=True)]
        )
    file.close()


def starts(count: int, rounds: int, kept: Path, url: str) -> None:
    """Prints the seconds of a start, and the memory once the count is known, with and without waiting events."""
    sides = {}
    for side, waiting in (("without", 1), ("with", count)):
        place = kept / side
        filled = place.exists()
        place.mkdir(parents=True, exist_ok=True)
        gateway = GatewayProcess(CONFIG % (url, ", delay: 1d"), place)
        if not filled:
            gateway.start()
            send_all(gateway.ingress(), 0, 1, 1, connections=1)
            wait_for(gateway, "delayed", 1)
            gateway.stop()
        fill(next(gateway.data_dir.glob("log/default/delayed-*.db")), waiting)
        sides[side] = gateway, waiting
    if not rounds:
        return
    ready: dict[str, list[float]] = {side: [] for side in sides}
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    memory: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, (gateway, waiting) in sides.items():
            began = time.perf_counter()
            gateway.start()
            ready[side].append(time.perf_counter() - began)
            cpu[side].append(cpu_us(gateway.pid) / 1e6)
            wait_for(gateway, "delayed", waiting)
            time.sleep(1.0)
            memory[side].append(memory_mb(gateway.pid))
            gateway.stop()
    for what, values, unit in (("start, wall", ready, "s"), ("start, CPU", cpu, "s"), ("memory", memory, "MB")):
        without, with_ = (statistics.median(values[side]) for side in sides)
        print(
            f"{what}: {without:.2f} {unit} with one, {with_:.2f} {unit} with {count:,}: {with_ - without:+.2f} {unit}"
        )


def folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--waiting", type=int, default=0, help="also starts with so many events that wait")
    parser.add_argument("--starts", type=int, default=5, help="0: only fill the folder")
    parser.add_argument("--folder", type=Path, help="where they are kept for another run")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 100])
    a = parser.parse_args()
    with ExitStack() as stack:
        url = stack.enter_context(bare_server()).url
        if a.rounds:
            per_event(a.rounds, a.events, a.batches, stack, url)
        if a.waiting:
            starts(a.waiting, a.starts, a.folder or folder(stack), url)


if __name__ == "__main__":
    main()
