"""Faults of the Kafka broker, of the way to it, and of Spark."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from contextlib import suppress

from tests.soak.world import START_S, Play, World, children, command_line, stopped


def kill_broker(world: World, chance: random.Random) -> str:
    broker = world.kafka
    assert broker
    broker.kill()
    time.sleep(chance.random() * 2)
    world.timed("broker", lambda: broker.start(START_S))
    return "kill -9 and start"


def stop_broker(world: World, chance: random.Random) -> str | None:
    if not world.kafka or world.kafka.pid is None:
        return None
    seconds = chance.choice([1, 4, 10])
    with stopped(world.kafka.pid):
        time.sleep(seconds)
    return f"{seconds} s"


def spark(part: str, number: signal.Signals) -> Play:
    def play(world: World, chance: random.Random) -> str | None:
        table = chance.choice(world.tables)
        pid = world.spark(table, part)
        if pid is None:
            return None
        seconds = chance.choice([1, 5])
        with suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.kill(pid, signal.SIGKILL)
                return f"kill -9, table of {table}"
        with stopped(pid):
            time.sleep(seconds)
        return f"SIGSTOP for {seconds} s, table of {table}"

    return play


def jvm_without_disk(world: World, chance: random.Random) -> str | None:
    table = chance.choice(world.tables)
    pid = world.spark(table, "jvm")
    if pid is None:
        return None
    # every write to a file fails from now on; the query ends, and the next JVM has no limit
    with suppress(OSError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    return f"table of {table}"


def kill_spark_worker(world: World, chance: random.Random) -> str | None:
    pid = world.spark("log", "jvm") if "log" in world.tables else None
    daemons = [child for child in children(pid) if b"python" in command_line(child)] if pid else []
    if not daemons:
        return None
    with suppress(ProcessLookupError):
        os.kill(chance.choice(daemons), signal.SIGKILL)
    return "kill -9 of Spark's Python worker"


def stall_kafka(world: World, chance: random.Random) -> str:
    proxy = world.before_kafka
    assert proxy
    seconds = chance.choice([1, 3, 8])
    proxy.stall()
    time.sleep(seconds)
    proxy.heal()
    return f"{seconds} s"


def slow_kafka(world: World, chance: random.Random) -> str:
    proxy = world.before_kafka
    assert proxy
    proxy.slow(100_000)
    time.sleep(chance.uniform(1, 3))
    proxy.heal()
    return "100 kB/s on each connection"


def cut_kafka(world: World, chance: random.Random) -> str:
    proxy = world.before_kafka
    assert proxy
    after = chance.randrange(1, 20_000)
    proxy.cut(after)
    time.sleep(0.5)
    proxy.heal()
    return f"after {after} bytes"
