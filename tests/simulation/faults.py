"""Makes a plan's faults happen to a world, and ends them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import configs
from .choices import KINDS, SENDER, SERVER
from .disk import Rule
from .history import SyncFailed
from .plan import Fault
from .shortages import PLACES, Shortages
from .workers import Group

if TYPE_CHECKING:
    from .world import World


class Faults:
    """The faults of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lasting: list[Fault] = []
        self._down: object = None  # what keeps the gateway down
        self.shortages = Shortages()
        self.slow_s = 0.0
        """How much longer a sync takes."""

    def lasting(self, kind: str, target: str) -> int | None:
        """The amount of the latest fault of this kind for this target that lasts now."""
        for fault in reversed(self._lasting):
            if fault.kind == kind and (fault.target == target or not target):
                return fault.amount
        return None

    def begin(self, fault: Fault) -> str:
        """Makes it happen. Returns its effect, as `history.Happened` has it."""
        world = self._world
        kind = KINDS.get(fault.kind)
        if kind is None:
            return "nothing"
        if kind.target == SERVER:
            server = world.servers.get(fault.target)
            if server is None:
                return "nothing"
            server.begin(fault)
            self._until(fault, lambda: server.over(fault))
            return ""
        if kind.target == SENDER:
            return self._sender(fault)
        gateway = world.gateway if world.gateway is not None and not world.gateway.loop.dead else None
        match fault.kind:
            case "crash" | "power":
                if gateway is None:
                    return "nothing"
                gateway.crash_in(fault.amount, lambda: self._crashed(fault))
            case "restart":
                if gateway is None or not gateway.running:
                    return "nothing"
                gateway.stop(lambda: self._stopped(fault))
            case "freeze":
                if gateway is None:
                    return "nothing"
                world.cluster.silent(world.end_of(fault))
                gateway.loop.frozen_until = max(gateway.loop.frozen_until, world.end_of(fault))
            case "clock":
                world.clock_offset_s += fault.amount
            case "reload":
                if gateway is None or not gateway.running or fault.amount >= len(world.plan.configs):
                    return "nothing"
                world.write_config(fault.amount)
                world.reload()
            case "bad-config":
                if gateway is None or not gateway.running:
                    return "nothing"
                before = world.config
                world.write_config(before, configs.BROKEN)
                world.reload()
                self._until(fault, lambda: self._good_config(before))
            case "pause":
                if gateway is None or not gateway.running:
                    return "nothing"
                generation = world.generation
                world.paused[fault.target] = world.paused.get(fault.target, 0) + 1
                world.pause()
                self._until(fault, lambda: self._resume(fault, generation))
            case "disk-full":
                world.disk.fill()
                self._until(fault, lambda: world.disk.fill(world.disk.size))
            case "disk-error":
                rule = world.disk.fail("write", errno.EIO, times=fault.amount)
                self._until(fault, lambda: world.disk.heal(rule))
            case "sync-error":
                rule = world.disk.fail("sync", errno.EIO, times=0)
                self._until(fault, lambda: self._restart_after(fault, rule))
            case "sync-once":
                rule = world.disk.fail("sync", errno.EIO, "*-wal", times=fault.amount)
                rule.on_hit = lambda: world.add(SyncFailed(world.scheduler.now))
                self._until(fault, lambda: self._restart_after(fault, rule))
            case "disk-lies":
                self._lasting.append(fault)
                self._look_at_disk()
                self._until(fault, lambda: self._end_lasting(fault))
            case "memory":
                self.shortages.begin(PLACES[fault.amount])
                self._lasting.append(fault)
                self._until(fault, lambda: self._end_shortage(fault))
            case "worker-crash":
                if not isinstance(gateway, Group) or not gateway.kill_worker(fault.amount):
                    return "nothing"
            case "tls-hello":
                world.hello(fault.amount)
            case "tls-renew":
                if world.certificates is None:
                    return "nothing"
                world.certificates.renew(abs(fault.amount), half=fault.amount < 0)
                self._until(fault, lambda: self._whole(fault))
            case "kafka-move" | "kafka-evict" | "kafka-recreate":
                if world.cluster.begin(fault):
                    return "nothing"
                self._until(fault, lambda: world.cluster.over(fault))
            case "queue-away" | "queue-vanish" | "queue-cut" | "queue-consumer":
                self._lasting.append(fault)
                self._until(fault, lambda: self._end_lasting(fault))
                return world.queues.begin(fault)
            case _:
                self._lasting.append(fault)
                if fault.kind == "kafka-away" and fault.amount:
                    world.cluster.silent(world.end_of(fault))
                self._look_at_disk()
                self._until(fault, lambda: self._end_lasting(fault))
        return ""

    def end(self) -> None:
        """All faults are over."""
        self._lasting.clear()
        self.shortages.end()
        self._look_at_disk()
        self._world.disk.heal()
        self._world.disk.fill(self._world.disk.size)
        self._world.disk.stop_at(0)
        self._world.cluster.end()
        self._down = None

    # -- single ones --------------------------------------------------------------------------------------------------

    def _until(self, fault: Fault, over: Callable[[], None]) -> None:
        def end() -> None:
            over()
            self._world.over(fault)

        self._world.scheduler.at(self._world.end_of(fault), end)

    def _end_lasting(self, fault: Fault) -> None:
        if fault in self._lasting:
            self._lasting.remove(fault)
            self._look_at_disk()
            self._world.cluster.poke()

    def _whole(self, fault: Fault) -> None:
        """The key of a certificate has come."""
        if fault.amount < 0 and self._world.certificates is not None:
            self._world.certificates.renew(abs(fault.amount))

    def _end_shortage(self, fault: Fault) -> None:
        if fault in self._lasting:
            self.shortages.over(PLACES[fault.amount])
            self._end_lasting(fault)

    def out_of_memory(self, place: str) -> bool:
        """Whether there is no memory at this place now."""
        number = PLACES.index(place)
        return any(fault.kind == "memory" and fault.amount == number for fault in self._lasting)

    def _look_at_disk(self) -> None:
        self.slow_s = (self.lasting("disk-slow", "") or 0) / 1000
        self._world.disk.lying = self.lasting("disk-lies", "") is not None

    def _sender(self, fault: Fault) -> str:
        world = self._world
        if fault.kind == "sender-nonsense":
            world.nonsense(fault.amount)
            return ""
        sender = world.sender(int(fault.target or "0"))
        if fault.kind == "sender-stall":
            sender.stall(world.end_of(fault))
        else:
            sender.next_fault = fault
        return ""

    def _start(self, fault: Fault) -> None:
        if self._down is fault:
            self._down = None
            self._world.start()

    def _restart_after(self, fault: Fault, rule: Rule) -> None:
        self._world.disk.heal(rule)
        gateway = self._world.gateway
        if rule.hits and gateway is not None and not gateway.loop.dead:
            gateway.stop(lambda: self._stopped(Fault(0.0, "restart")))

    def _crashed(self, fault: Fault) -> None:
        world = self._world
        world.crash(power=fault.kind == "power")
        if fault.kind == "power":
            self._lasting = [f for f in self._lasting if f.kind != "disk-lies"]
        self._look_at_disk()
        self._down = fault
        world.scheduler.at(world.scheduler.now + max(fault.seconds, 0.01), self._start, fault)

    def _stopped(self, fault: Fault) -> None:
        world = self._world
        self._down = fault
        world.scheduler.at(world.scheduler.now + fault.seconds, self._start, fault)

    def _good_config(self, number: int) -> None:
        world = self._world
        if world.config == number:
            world.write_config(number)
            world.reload()

    def _resume(self, fault: Fault, generation: int) -> None:
        world = self._world
        if world.generation == generation and world.paused.get(fault.target):
            world.paused[fault.target] -= 1
            world.pause()
