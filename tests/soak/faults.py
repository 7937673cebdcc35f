"""The faults of a soak. Each does one thing to the world under load, heals it, and returns a word on it.

A fault returns None if there was nothing to hurt: a JVM that is just being restarted, a disk that can't stand still.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from tests.soak import gateway_faults, operator_faults, remote_faults, server_faults
from tests.soak.ledger import Control
from tests.soak.world import Play, World


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


ALL = (
    Fault("gateway: kill -9", gateway_faults.kill_gateway),
    Fault("gateway: SIGTERM and start", gateway_faults.restart_gateway),
    Fault("gateway: SIGSTOP", gateway_faults.stop_gateway),
    Fault("gateway: little CPU", gateway_faults.little_cpu),
    Fault("worker: kill -9", gateway_faults.kill_worker),
    Fault("worker: SIGSTOP", gateway_faults.stop_worker),
    Fault("gateway: few descriptors", gateway_faults.few_descriptors),
    Fault("gateway: little memory", gateway_faults.little_memory),
    Fault("gateway: no file may grow", gateway_faults.small_files),
    Fault("disk: full", gateway_faults.full_disk),
    Fault("disk: full, and kill -9", gateway_faults.killed_on_a_full_disk),
    Fault("disk: stands still", gateway_faults.frozen_disk),
    Fault("disk: slow", gateway_faults.slow_disk),
    Fault("broker: kill -9", server_faults.kill_broker, needs="kafka"),
    Fault("broker: SIGSTOP", server_faults.stop_broker, needs="kafka"),
    Fault("Spark driver: kill -9", server_faults.spark("driver", signal.SIGKILL), needs="tables", repeats=False),
    Fault("Spark driver: SIGSTOP", server_faults.spark("driver", signal.SIGSTOP), needs="tables", repeats=False),
    Fault("Spark JVM: kill -9", server_faults.spark("jvm", signal.SIGKILL), needs="tables", repeats=False),
    Fault("Spark JVM: SIGSTOP", server_faults.spark("jvm", signal.SIGSTOP), needs="tables", repeats=False),
    Fault("Spark JVM: no file may grow", server_faults.jvm_without_disk, needs="tables", repeats=False),
    Fault("Spark worker: kill -9", server_faults.kill_spark_worker, needs="tables", repeats=False),
    Fault("broker: connections stall", server_faults.stall_kafka, hard=False, needs="kafka"),
    Fault("broker: connections slow", server_faults.slow_kafka, hard=False, needs="kafka"),
    Fault("broker: connections cut", server_faults.cut_kafka, hard=False, needs="kafka"),
    Fault("subscriber: kill -9", remote_faults.receiver(0, signal.SIGKILL), hard=False),
    Fault("subscriber: SIGSTOP", remote_faults.receiver(0, signal.SIGSTOP), hard=False),
    Fault("subscriber: 503", remote_faults.mood(0, Control.REFUSE, 3), hard=False, repeats=False),
    Fault("subscriber: silent", remote_faults.mood(0, Control.SILENT, 1), hard=False),
    Fault("subscriber: takes events, cuts the answer", remote_faults.mood(0, Control.DROP, 0.3), hard=False),
    Fault("subscriber: connections cut", remote_faults.cut_subscriber, hard=False),
    Fault("subscriber: connections reset", remote_faults.reset_subscriber, hard=False),
    Fault("dead letter: kill -9", remote_faults.receiver(1, signal.SIGKILL), hard=False, repeats=True),
    Fault("dead letter: 503", remote_faults.mood(1, Control.REFUSE, 3), hard=False, repeats=False),
    Fault("dead letter: takes events, cuts the answer", remote_faults.mood(1, Control.DROP, 0.3), hard=False),
    Fault("operator: reload", operator_faults.reload, hard=False, repeats=False),
    Fault("operator: reload of a faulty config", operator_faults.bad_reload, hard=False, repeats=False),
    Fault("operator: pause and resume", operator_faults.pause, hard=False, repeats=False),
    Fault("operator: backup", operator_faults.backup, hard=False, repeats=False),
    Fault("operator: certificate renewed", operator_faults.certificates, hard=False, repeats=False),
)


def chosen(world: World) -> list[Fault]:
    """Those that this world can play."""
    only = world.options.only
    present = {"": True, "kafka": world.kafka is not None, "tables": bool(world.tables)}
    return [fault for fault in ALL if present[fault.needs] and (not only or fault.name in only)]


def order(faults: list[Fault], seed: str) -> Iterator[Fault]:
    """Each as often as the others, in an order that follows from the seed. Without faults nothing."""
    chance = random.Random(seed)
    while faults:
        yield from chance.sample(faults, len(faults))
