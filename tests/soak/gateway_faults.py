"""Faults of the gateway under test, of its limits and of its disk."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.soak.world import START_S, World, stopped


def kill_gateway(world: World, chance: random.Random) -> str:
    world.storm.kill()
    time.sleep(chance.random())
    world.start_gateway("storm")
    return "kill -9 and start"


def restart_gateway(world: World, chance: random.Random) -> str:
    code = world.storm.stop(START_S)
    world.start_gateway("storm")
    if code:
        raise AssertionError(f"SIGTERM ended the gateway with {code}")
    return "SIGTERM and start"


def kill_worker(world: World, chance: random.Random) -> str | None:
    workers = world.workers()
    if len(workers) < 2:
        return None
    os.kill(chance.choice(workers), signal.SIGKILL)
    return "kill -9 of a worker"


def stop_worker(world: World, chance: random.Random) -> str | None:
    workers = world.workers()
    if not workers:
        return None
    seconds = chance.choice([0.5, 2, 8])
    with stopped(chance.choice(workers)):
        time.sleep(seconds)
    return f"{seconds:g} s"


def stop_gateway(world: World, chance: random.Random) -> str:
    seconds = chance.choice([0.5, 2, 8])
    with stopped(world.storm.pid, *world.workers()):
        time.sleep(seconds)
    return f"supervisor and workers, {seconds:g} s"


def little_cpu(world: World, chance: random.Random) -> str:
    pids = [world.storm.pid, *world.workers()]
    for _ in range(20):
        with stopped(*pids):
            time.sleep(0.18)
        time.sleep(0.02)
    return "a tenth of its time, for 4 s"


@contextmanager
def limited(pids: list[int], kind: int, soft: Callable[[int], int]) -> Iterator[None]:
    """Lowers a soft limit of processes, and puts it back."""
    before = {}
    for pid in pids:
        with suppress(OSError):
            limits = resource.prlimit(pid, kind)
            resource.prlimit(pid, kind, (soft(pid), limits[1]))
            before[pid] = limits
    try:
        yield
    finally:
        for pid, limits in before.items():
            with suppress(OSError):
                resource.prlimit(pid, kind, limits)


def few_descriptors(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(1, 4)
    with limited(world.workers(), resource.RLIMIT_NOFILE, lambda pid: len(os.listdir(f"/proc/{pid}/fd")) + 2):
        time.sleep(seconds)
    return f"{seconds:.1f} s"


def little_memory(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(0.5, 2)

    def allowed(pid: int) -> int:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        return pages * resource.getpagesize() + (2 << 20)

    with limited(world.workers(), resource.RLIMIT_AS, allowed):
        time.sleep(seconds)
    return f"{seconds:.1f} s"


def small_files(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(0.5, 3)
    with limited(world.workers(), resource.RLIMIT_FSIZE, lambda pid: 1 << 16):
        time.sleep(seconds)
    return f"{seconds:.1f} s"


def full_disk(world: World, chance: random.Random) -> str | None:
    if world.disk.kind == "folder":
        return None
    seconds, leave = chance.uniform(2, 6), chance.choice([0, 100_000])
    try:
        world.disk.fill(leave)
        time.sleep(seconds)
    finally:
        world.disk.free()
    return f"{seconds:.1f} s, {leave} bytes left"


def killed_on_a_full_disk(world: World, chance: random.Random) -> str | None:
    if world.disk.kind == "folder":
        return None
    try:
        world.disk.fill()
        time.sleep(1)
        world.storm.kill()
        world.start_gateway("storm")
        time.sleep(1)
    finally:
        world.disk.free()
    return "killed and started while the disk was full"


def frozen_disk(world: World, chance: random.Random) -> str | None:
    seconds = chance.choice([0.3, 1, 3])
    try:
        if not world.disk.freeze():
            return None
        time.sleep(seconds)
    finally:
        world.disk.thaw()
    return f"{seconds:g} s"


def slow_disk(world: World, chance: random.Random) -> str | None:
    try:
        for _ in range(20):
            if not world.disk.freeze():
                return None
            time.sleep(0.1)
            world.disk.thaw()
            time.sleep(0.05)
    finally:
        world.disk.thaw()
    return "0.1 s of every 0.15 s, twenty times"
