"""Runs a plan: senders, the gateway's real code, servers, operators, faults. Returns what the outside saw."""

from __future__ import annotations

import gc
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gateway_log.reader import LogReader
from gateway_serving import unexpected

from gateway_core.config.registry import Registry
from gateway_core.contract.runners import ConfigRead
from gateway_core.delivery import deliveries, subscription

from . import configs, later_ends, plugins
from .disk import Disk
from .faults import Faults
from .gateways import Process, unheard
from .history import (
    Arrived,
    Broken,
    Ended,
    Greeted,
    Happened,
    Heard,
    History,
    Kept,
    Logged,
    Operated,
    Over,
    Paused,
    Quiet,
    Record,
    Reloaded,
    Repaired,
    ReplayBegan,
    Replied,
    Rewound,
    Started,
    StartFailed,
    Starting,
    Status,
)
from .kafka_clients import connected
from .kafka_cluster import Cluster
from .kafka_senders import write
from .kafka_wire import WireBroker
from .letters import letters
from .logs import captured
from .mqtt_stream import streaming
from .network import Endpoint, Network
from .plan import EPOCH_S, MODES, QUEUES, Fault, Operation, Plan
from .queue_server import Queues
from .repairs import repaired
from .replaced import close_all, look, replaced
from .scheduler import Scheduler
from .senders import NONSENSE, PORT, Sender, Stranger
from .servers import Server
from .threads import Threads
from .tls_wire import Certificates, hello
from .workers import Front, Group, several

SCHEDULE_S = 35.0
"""In this time all runs of schedules are made that are due, even if the clock was set."""
MOST_STEPS = 3_000_000
"""A run that takes more turns in circles."""
_registry: Registry | None = None


def registry() -> Registry:
    """All installed plugins and that of the simulation; loaded once."""
    global _registry
    if _registry is None:
        _registry = Registry.installed()
        _registry.add("simulated", plugins)
        look()
        gc.collect()
        gc.freeze()  # so that a collection after each run costs little
    return _registry


def run(plan: Plan, folder: Path | None = None) -> History:
    """Runs a plan. The gateway's files are in `folder`, by default in one that is removed afterwards."""
    collects = gc.isenabled()
    gc.disable()
    unexpected.counts.clear()  # kept for a process: which lines are logged depends on it
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    where = folder or Path(tempfile.mkdtemp(prefix="tidegate-sim-", dir=memory))
    try:
        world = World(plan, where)
        held = patch.object(subscription, "MOST_HELD", plan.most_held or deliveries.MOST_HELD)
        with (
            held,
            world.disk,
            replaced(world),
            connected(world.cluster),
            streaming(world),
            captured(world.logged, where),
            several(world),
        ):
            plugins.playing = world
            try:
                world.run()
            finally:
                plugins.playing = None
                world.leave()
                # a gateway that was killed does not take back that this thread runs asyncio
                if sniffio := sys.modules.get("sniffio"):
                    sniffio.thread_local.name = None
        return world.history
    finally:
        if collects:
            gc.enable()
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)


class World:
    """One run."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.history = History()
        self.scheduler = Scheduler()
        self.random = plan.random("machine")
        self.network = Network(self.scheduler, plan.network, plan.seed)
        self.servers = {name: Server(self, name) for config in plan.configs for name in config.names}
        self.network.hosts.update(self.servers)
        self.generation = 0
        self.config = 0
        self.written: list[int] = []
        """The configs that were written to the file."""
        self.clock_offset_s = 0.0
        self.gateway: Process | None = None
        self.faults = Faults(self)
        self.cluster = Cluster(self)
        if self.cluster.wire:
            WireBroker(self.cluster)
        self.queues = Queues(self)
        self.paused: dict[str, int] = {}
        self._folder = folder
        self._arrivals = 0
        self._delays = plan.random("threads")
        self._senders: dict[int, Sender] = {}
        self._pending = 0  # what senders have still to try again
        self._over = False
        self._begun: set[int] = set()
        self._unbegun = 0  # replays and rewinds
        self._asked: dict[int, float] = {}  # when a rewind was asked for first
        self._rewound: set[int] = set()
        self._broken = 0
        self.registry = registry()
        self.configs: dict[str, ConfigRead] = {}
        """Those that were read at a start."""
        self.data_dir = folder / "data"
        self.file = folder / "gateway.yaml"
        secure = any(config.tls for config in plan.configs)
        self.certificates = Certificates(folder / configs.TLS) if secure else None
        self.descriptors: dict[int, str] = {}
        self.disk = Disk(self.data_dir, plan.random("disk"))
        self.disk.owner = lambda: Threads.current
        self.dials = plan.random("dials")

    # -- the simulated machine ----------------------------------------------------------------------------------------

    @property
    def socket(self) -> Any:
        """See `replaced.Simulation`."""
        return _Delegate(lambda: (machine := self._own_machine()) and machine.socket)

    @property
    def select(self) -> Any:
        """See `replaced.Simulation`."""
        return _Delegate(lambda: (machine := self._own_machine()) and machine.select)

    def _own_machine(self) -> Any:
        """The network of the process that runs now."""
        if isinstance(self.gateway, Group) and (one := self.gateway.current) is not None:
            return one.machine
        return self.gateway and self.gateway.machine

    def monotonic(self) -> float:
        """See `replaced.Simulation`."""
        return self.scheduler.now

    def now_ns(self) -> int:
        """See `replaced.Simulation`."""
        return int((EPOCH_S + self.clock_offset_s + self.scheduler.now) * 1e9)

    def thread_delay(self) -> float:
        """How long a thread of the gateway takes until it runs, and what it writes is on disk."""
        return self._delays.random() * 0.001 + self.faults.slow_s

    # -- what is seen -----------------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        """Notes something."""
        self.history.add(record)

    def plain(self, text: str) -> str:
        """Without the folder, which differs from run to run."""
        return text.replace(str(self._folder), "")

    def broken(self, what: str) -> None:
        """Something that must not be."""
        self._broken += 1
        if self._broken < 20:
            self.add(Broken(self.scheduler.now, self.plain(what)))

    def logged(self, level: str, logger: str, text: str, error: str) -> None:
        """The gateway logged something."""
        if self.gateway is not None and self.gateway.loop.dead:
            return  # it is dead already
        self.add(Logged(self.scheduler.now, level, logger, text, error))

    def arrivals(self) -> int:
        """The number of the next arrival."""
        self._arrivals += 1
        return self._arrivals - 1

    # -- plugins.Playing ----------------------------------------------------------------------------------------------

    def fault(self, kind: str, target: str) -> int | None:
        """See `plugins.Playing`."""
        return self.faults.lasting(kind, target)

    def out_of_memory(self, place: str) -> bool:
        """See `plugins.Playing`."""
        return self.faults.out_of_memory(place)

    def out_of_descriptors(self) -> bool:
        """Whether the gateway's machine has no descriptor for another connection."""
        return self.faults.lasting("short", "") is not None

    def arrive(self, server: str, headers: tuple[tuple[str, str], ...], body: bytes) -> int:
        """See `plugins.Playing`."""
        if self.gateway is None or self.gateway.loop.dead:
            return -1
        number = self.arrivals()
        self.add(Arrived(self.scheduler.now, number, server, -1, headers, body, self.generation))
        return number

    def replied(self, number: int, status: int | None, how: str) -> None:
        """See `plugins.Playing`."""
        if number >= 0:
            self.add(Replied(self.scheduler.now, number, status, how))

    def heard(self, number: int) -> None:
        """See `plugins.Playing`."""
        if number >= 0:
            self.add(Heard(self.scheduler.now, number))

    def later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> None:
        """See `plugins.Playing`; for senders too."""
        gateway = self.gateway
        if gateway is not None and gateway.inside:
            gateway.loop.call_later(delay_s, call, *args)
            return
        self._pending += 1
        self.scheduler.after(delay_s, self._later, call, args)

    def _later(self, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._pending -= 1
        call(*args)

    # -- the run ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """All of it."""
        plan, scheduler = self.plan, self.scheduler
        self.write_config(0)
        self.start()
        for fault in plan.faults:
            scheduler.at(fault.at, self._happen, fault)
        for number, send in enumerate(plan.sends):
            scheduler.at(send.at, self._send, number)
        for number, replay in enumerate(plan.replays):
            self._unbegun += 1
            scheduler.at(replay.at, self._replay, number)
        for number, rewind in enumerate(plan.rewinds):
            self._unbegun += 1
            scheduler.at(rewind.at, self._rewind, number)
        for number, operation in enumerate(plan.operations):
            scheduler.at(operation.at, self._operate, number, operation)
        scheduler.run(plan.seconds, self._spins)
        self._over = True
        self.faults.end()
        if self.gateway is None:
            self.start()
        if any(config.schedules for config in plan.configs):  # nothing says whether a run is due
            scheduler.run(scheduler.now + SCHEDULE_S, self._spins)
        scheduler.run(scheduler.now + plan.settle_s, lambda: self._spins() or self.resting() == "")
        why = self.resting()
        gateway = self.gateway
        if gateway is not None:
            if plan.later and isinstance(gateway, Process) and gateway.gateway is not None and gateway.running:
                for one in later_ends.waits(gateway.gateway, scheduler.now):
                    self.add(one)
            gateway.report()
        self.add(Quiet(scheduler.now, why == "", self.plain(why)))
        if gateway is not None and not self._spins():
            gateway.stop()
            scheduler.run(scheduler.now + 600.0, lambda: self.gateway is None, 0.1)
            if self.gateway is not None:
                self.broken("the gateway did not stop")
        for letter in letters(self.data_dir, scheduler.now):
            self.add(letter)
        if self.gateway is None and plan.configs[0].once is not None:
            self._read_log()
        if any(config.schedules for config in plan.configs):
            for found in later_ends.stored(self.data_dir, scheduler.now):
                self.add(found)

    def _read_log(self) -> None:
        now = self.scheduler.now
        with LogReader(self.data_dir / "log" / "default") as reader:
            for shard in reader.shards():
                for event in reader.events(shard, reader.read(shard, 1)):
                    received_s = (event.received_ns or 0) / 1e9 - EPOCH_S
                    self.add(Kept(now, event.position or 0, str(event.attributes["id"]), received_s))

    def _replay(self, number: int) -> None:
        if number in self._begun:
            return
        if isinstance(self.gateway, Process) and self.gateway.running and not self.gateway.loop.dead:
            self.gateway.replay(number, self.plan.replays[number])
        self.scheduler.after(1.0, self._replay, number)

    def _operate(self, number: int, operation: Operation) -> None:
        if isinstance(self.gateway, Process) and self.gateway.running and not self.gateway.loop.dead:
            self.gateway.operate(number, operation)

    def operated(self, number: int, count: int) -> None:
        """The gateway has done it."""
        self.add(Operated(self.scheduler.now, number, count))

    def replay_began(self, number: int, id_: str) -> None:
        """The gateway has promised to run it."""
        if number not in self._begun:
            self._begun.add(number)
            self._unbegun -= 1
        self.add(ReplayBegan(self.scheduler.now, number, id_))

    def _rewind(self, number: int) -> None:
        if number in self._rewound:
            return
        if isinstance(self.gateway, Process) and self.gateway.running and not self.gateway.loop.dead:
            self.gateway.rewind(number, self.plan.rewinds[number])
        self.scheduler.after(1.0, self._rewind, number)

    def rewind_asked(self, number: int) -> None:
        """The gateway was asked for it."""
        self._asked.setdefault(number, self.scheduler.now)

    def rewind_done(self, number: int, asked: float) -> None:
        """The gateway says that it has done it."""
        if number not in self._rewound:
            self._rewound.add(number)
            self._unbegun -= 1
            self.add(Rewound(self.scheduler.now, number, asked, self._asked[number]))

    def leave(self) -> None:
        """Drops what is left of the gateway."""
        self.faults.shortages.end()
        if self.gateway is not None:
            self.gateway.kill()
            self.gateway = None
        with unheard():
            gc.collect()
        close_all(self.descriptors)

    def _spins(self) -> bool:
        if self.scheduler.steps > MOST_STEPS:
            self.broken("the run takes too many steps: something turns in circles")
            return True
        return False

    def _send(self, number: int) -> None:
        if self.plan.sends[number].mode in MODES:
            write(self.cluster, number)
        elif self.plan.sends[number].mode in QUEUES:
            self.queues.publish(number)
        else:
            self.sender(self.plan.sends[number].connection).queue(number)

    def sender(self, number: int) -> Sender:
        """The sender of this number."""
        if number not in self._senders:
            self._senders[number] = Sender(self, number)
        return self._senders[number]

    def dial(self, port: int, endpoint: Endpoint, name: str) -> None:
        """A connection to the gateway."""
        if self.gateway is None:
            self.scheduler.after(self.plan.network.latency_s, endpoint.ended, "refuse")
        elif isinstance(self.gateway, Group):
            Front(self.gateway, self.dials).dial(port, endpoint, name)
        else:
            self.gateway.machine.dial(port, endpoint, name)

    def resting(self) -> str:
        """What there is still to do, "" if nothing."""
        if self._pending or not all(sender.idle for sender in self._senders.values()):
            return "senders wait for answers"
        if self.gateway is None:
            return "the gateway is down"
        if self._unbegun:
            return "a replay has not begun, or a rewind was not done"
        return self.gateway.resting()

    # -- faults -----------------------------------------------------------------------------------------------------

    def _happen(self, fault: Fault) -> None:
        record = len(self.history.records)
        effect = self.faults.begin(fault)
        self.history.records.insert(record, Happened(self.scheduler.now, fault, effect))

    def end_of(self, fault: Fault) -> float:
        """When a fault is over: in time for the end of the trouble."""
        return min(fault.at + fault.seconds, self.plan.seconds)

    def over(self, fault: Fault) -> None:
        """A fault that lasted is over."""
        self.add(Over(self.scheduler.now, fault))

    def nonsense(self, amount: int) -> None:
        """A stranger sends nonsense."""
        self.dial(PORT, Stranger(self, NONSENSE[amount % len(NONSENSE)]), "stranger")

    def hello(self, amount: int) -> None:
        """A stranger begins a handshake."""
        self.dial(PORT, Stranger(self, hello()[:amount], stays_s=30.0), "stranger")

    def spoken(self, link: Endpoint) -> Endpoint:
        """A sender's end, which speaks TLS if the listener does."""
        since = self.scheduler.now
        if self.certificates is None:
            return link
        return self.certificates.client(link, lambda shown: self.add(Greeted(self.scheduler.now, since, shown)))

    # -- the gateway's lives ------------------------------------------------------------------------------------------

    def write_config(self, number: int, text: str | None = None) -> None:
        """The config's file becomes this one."""
        self.config = number
        self.written.append(number)
        text = text or configs.text(self.plan.configs[number])
        self.file.write_text(text.replace(f'"{configs.TLS}/', f'"{self._folder}/{configs.TLS}/'))

    def start(self) -> None:
        """A gateway starts on what the disk has."""
        if self.gateway is not None:
            return
        self.generation += 1
        self.write_config(self.config)
        if self.paused:
            self.paused.clear()
            self.add(Paused(self.scheduler.now, ()))
        self.add(Starting(self.scheduler.now, self.generation, self.config))
        workers = self.plan.configs[self.config].workers
        self.gateway = Group(self, self.generation) if workers > 1 else Process(self, self.generation)
        self.gateway.begin()

    def started(self, process: Process) -> None:
        """It accepts events."""
        self.add(Started(self.scheduler.now, process.generation, self.config))

    def start_failed(self, process: Process, error: str) -> None:
        """It could not start."""
        self.add(StartFailed(self.scheduler.now, process.generation, self.plain(error)))
        self._gone(process)
        if "`tidegate log repair" in error:
            self.add(Repaired(self.scheduler.now, repaired(self.data_dir, self.now_ns() / 1e9)))
        self.scheduler.after(1.0, self.start)

    def ended(self, process: Process) -> None:
        """It has stopped in good order."""
        self.add(Ended(self.scheduler.now, process.generation, "stop"))
        self._gone(process)

    def crash(self, *, power: bool) -> None:
        """The gateway is gone at once."""
        process = self.gateway
        assert process is not None
        process.kill(dark=power)
        self.disk.crash("power" if power else "process")
        self.add(Ended(self.scheduler.now, process.generation, "power" if power else "crash"))
        self._gone(process)
        if power:
            self.scheduler.after(0.5, process.machine.boot)

    def _gone(self, process: Process) -> None:
        process.dispose()
        self.disk.stop_at(0)
        self.gateway = None
        self.scheduler.process = None
        self.cluster.died()

    def reload(self) -> None:
        """The gateway is to read its config again."""
        if self.gateway is not None:
            self.gateway.reload()

    def reloaded(self, number: int, faults: tuple[str, ...]) -> None:
        """The gateway has reloaded, or could not."""
        self.add(Reloaded(self.scheduler.now, number, tuple(map(self.plain, faults))))

    def pause(self) -> None:
        """Exactly the triggers in `paused` are paused."""
        if self.gateway is not None and self.gateway.running:
            names = tuple(sorted(name for name, count in self.paused.items() if count))
            self.gateway.pause(names)
            self.add(Paused(self.scheduler.now, names))

    def status(self, process: Process, document: dict[str, Any]) -> None:
        """A status document."""
        plain = json.loads(self.plain(json.dumps(document)))
        self.add(Status(self.scheduler.now, process.generation, plain))


class _Delegate:
    """Leads to what is there at the moment."""

    def __init__(self, what: Callable[[], Any]) -> None:
        self.__dict__["_what"] = what

    def __getattr__(self, name: str) -> Any:
        return getattr(self._what(), name)
