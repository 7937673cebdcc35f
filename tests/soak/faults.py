"""The faults of a soak. Each does one thing to the world under load, heals it, and returns a word on it.

A fault returns None if there was nothing to hurt: a JVM that is just being restarted, a disk that can't stand still.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.soak.ledger import Control
from tests.soak.world import START_S, Stopped, World, children, command_line

Play = Callable[[World, random.Random], str | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by name. `hard` ones come one after another, each after the recovery from the one before; others come
    among them at any moment. `repeats`: an event may arrive twice because of it. `needs` names what has to take
    part."""

    name: str
    play: Play
    hard: bool = True
    repeats: bool = True
    needs: str = ""


# -- gateways ---------------------------------------------------------------------------------------------------------


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
    with Stopped(chance.choice(workers)):
        time.sleep(seconds)
    return f"{seconds:g} s"


def stop_gateway(world: World, chance: random.Random) -> str:
    seconds = chance.choice([0.5, 2, 8])
    everything = [world.storm.pid, *world.workers()]
    for pid in everything:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in everything:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return f"supervisor and workers, {seconds:g} s"


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


# -- Kafka and Spark --------------------------------------------------------------------------------------------------


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
    with Stopped(world.kafka.pid):
        time.sleep(seconds)
    return f"{seconds} s"


def _spark(part: str, number: signal.Signals) -> Play:
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
        with Stopped(pid):
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


# -- the far side of HTTP ---------------------------------------------------------------------------------------------


def _receiver(index: int, number: signal.Signals) -> Play:
    def play(world: World, chance: random.Random) -> str:
        receiver = world.receivers[index]
        seconds = chance.choice([0.5, 2, 6])
        if number == signal.SIGKILL:
            receiver.kill()
            time.sleep(seconds)
            receiver.start()
            return f"away for {seconds:g} s"
        receiver.send(signal.SIGSTOP)
        time.sleep(seconds)
        receiver.send(signal.SIGCONT)
        return f"{seconds:g} s"

    return play


def _mood(index: int, mood: int, most_s: float) -> Play:
    def play(world: World, chance: random.Random) -> str:
        seconds = chance.uniform(0.2, most_s)
        world.control.set_mood(index, mood)
        time.sleep(seconds)
        world.control.set_mood(index, Control.WELL)
        return f"{seconds:.1f} s"

    return play


def cut_subscriber(world: World, chance: random.Random) -> str:
    after = chance.randrange(1, 3_000)
    world.behind.cut(after)
    time.sleep(0.5)
    world.behind.heal()
    return f"after {after} bytes"


def reset_subscriber(world: World, chance: random.Random) -> str:
    world.behind.reset()
    return "RST on every connection"


# -- the operator -----------------------------------------------------------------------------------------------------


def reload(world: World, chance: random.Random) -> str:
    with world.configs:
        world.generation += 1
        world.write_configs()
    return f"generation {world.generation}, both gateways"


def bad_reload(world: World, chance: random.Random) -> str:
    with world.configs:
        for gateway in (world.storm, world.steady):
            gateway.config.write_text("brokers: {log: {ingress: [http: {listen: nowhere}]}}\n")
        time.sleep(1)
        world.write_configs()
    return "a config with a fault, then the good one"


def certificates(world: World, chance: random.Random) -> str:
    new = world.renew_certificates()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    end = time.monotonic() + 120
    while True:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", world.ports["tls"]), 5) as plain,
            context.wrap_socket(plain) as secure,
        ):
            if secure.getpeercert(binary_form=True) == new:
                return "renewed, and served"
        if time.monotonic() > end:
            raise AssertionError("the renewed certificate is not served")
        time.sleep(0.1)


ALL = (
    Fault("gateway: kill -9", kill_gateway),
    Fault("gateway: SIGTERM and start", restart_gateway),
    Fault("gateway: SIGSTOP", stop_gateway),
    Fault("worker: kill -9", kill_worker),
    Fault("worker: SIGSTOP", stop_worker),
    Fault("gateway: few descriptors", few_descriptors),
    Fault("gateway: little memory", little_memory),
    Fault("gateway: no file may grow", small_files),
    Fault("disk: full", full_disk),
    Fault("disk: full, and kill -9", killed_on_a_full_disk),
    Fault("disk: stands still", frozen_disk),
    Fault("disk: slow", slow_disk),
    Fault("broker: kill -9", kill_broker, needs="kafka"),
    Fault("broker: SIGSTOP", stop_broker, needs="kafka"),
    Fault("Spark driver: kill -9", _spark("driver", signal.SIGKILL), needs="tables", repeats=False),
    Fault("Spark driver: SIGSTOP", _spark("driver", signal.SIGSTOP), needs="tables", repeats=False),
    Fault("Spark JVM: kill -9", _spark("jvm", signal.SIGKILL), needs="tables", repeats=False),
    Fault("Spark JVM: SIGSTOP", _spark("jvm", signal.SIGSTOP), needs="tables", repeats=False),
    Fault("Spark JVM: no file may grow", jvm_without_disk, needs="tables", repeats=False),
    Fault("Spark worker: kill -9", kill_spark_worker, needs="tables", repeats=False),
    Fault("broker: connections stall", stall_kafka, hard=False, needs="kafka"),
    Fault("broker: connections slow", slow_kafka, hard=False, needs="kafka"),
    Fault("broker: connections cut", cut_kafka, hard=False, needs="kafka"),
    Fault("subscriber: kill -9", _receiver(0, signal.SIGKILL), hard=False),
    Fault("subscriber: SIGSTOP", _receiver(0, signal.SIGSTOP), hard=False),
    Fault("subscriber: 503", _mood(0, Control.REFUSE, 3), hard=False, repeats=False),
    Fault("subscriber: silent", _mood(0, Control.SILENT, 1), hard=False),
    Fault("subscriber: takes events, cuts the answer", _mood(0, Control.DROP, 0.3), hard=False),
    Fault("subscriber: connections cut", cut_subscriber, hard=False),
    Fault("subscriber: connections reset", reset_subscriber, hard=False),
    Fault("dead letter: kill -9", _receiver(1, signal.SIGKILL), hard=False, repeats=True),
    Fault("dead letter: 503", _mood(1, Control.REFUSE, 3), hard=False, repeats=False),
    Fault("dead letter: takes events, cuts the answer", _mood(1, Control.DROP, 0.3), hard=False),
    Fault("operator: reload", reload, hard=False, repeats=False),
    Fault("operator: reload of a faulty config", bad_reload, hard=False, repeats=False),
    Fault("operator: certificate renewed", certificates, hard=False, repeats=False),
)


def chosen(world: World) -> list[Fault]:
    """Those that this world can play."""
    only = world.options.only
    present = {"": True, "kafka": world.kafka is not None, "tables": bool(world.tables)}
    return [fault for fault in ALL if present[fault.needs] and (not only or fault.name in only)]


def order(faults: list[Fault], seed: int) -> Iterator[Fault]:
    """Each as often as the others, in an order that follows from the seed. Without faults nothing."""
    chance = random.Random(seed)
    while faults:
        yield from chance.sample(faults, len(faults))
