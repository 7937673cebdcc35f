"""One life of the gateway: its process, from the config's files to its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from gateway_core.config.config_read import read_config
from gateway_core.contract.capabilities import Delaying
from gateway_core.contract.clock import Timer
from gateway_core.contract.errors import ConfigError, TidegateError
from gateway_core.contract.settings import Settings
from gateway_core.pipeline.broker import Trigger
from gateway_core.runtime.gateway import Gateway

from . import later_ends, threads
from .loop import Loop
from .plan import SOURCE
from .replaced import forget, look, unlock_all
from .transports import Machine

if TYPE_CHECKING:
    from .plan import Operation, Replay, Rewind
    from .world import World


@contextmanager
def unheard() -> Iterator[None]:
    """Inside, what is left of a dead process is collected without a word: coroutines end, on a closed loop."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


class SimulatedClock:
    """The gateway's `Clock`."""

    def __init__(self, world: World, loop: Loop) -> None:
        self.now_ns = world.now_ns
        self.monotonic = world.monotonic
        self._loop = loop

    def call_later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> Timer:
        return self._loop.call_later(delay_s, call, *args)


class Process:
    """A gateway in a process of its own: everything of it is gone after `kill`."""

    def __init__(self, world: World, generation: int) -> None:
        self._world = world
        self.generation = generation
        self.machine = Machine(world.network, generation)
        self.machine.short = world.out_of_descriptors
        self.loop = Loop(world.scheduler, self.machine, self._unexpected, world.thread_delay)
        self.running = False
        self.gateway: Gateway | None = None
        self._stop: anyio.Event | None = None
        self._then: Callable[[], None] | None = None
        self._reloading: asyncio.Lock
        self._rewinding: Gateway | None = None
        threads.Threads.current = self.loop.threads
        forget()

    def _unexpected(self, what: str) -> None:
        """asyncio would log this. aiokafka reports a connection whose bootstrap was cancelled, and closes it."""
        if not what.startswith("Unclosed AIOKafkaConnection"):
            self._world.broken(what)

    @property
    def inside(self) -> bool:
        """Whether its code runs at the moment."""
        return asyncio.events._get_running_loop() is self.loop

    def begin(self) -> None:
        """Starts it."""
        self._world.scheduler.process = self.loop
        self._reloading = asyncio.Lock()
        self._main = self.loop.create_task(self._run())

    async def _run(self) -> None:
        world = self._world
        self._stop, begun = anyio.Event(), anyio.Event()
        settings = Settings(
            data_dir=world.data_dir,
            admin="off",
            reload="signal",
            drain_timeout_s=world.plan.configs[world.config].drain_timeout_s,
        )
        error = ""
        try:
            text = world.file.read_text()
            if text in world.configs:  # reading it is most of a start
                read = replace(world.configs[text], settings=settings, since_ns=world.now_ns())
            else:
                read = world.configs[text] = read_config([world.file], settings, world.registry)
            self.gateway = Gateway(
                read.loaded.config, settings, world.registry, SimulatedClock(world, self.loop), read=read
            )
            look()
            await self.gateway.run(self._stop, begun, lambda: self._begun(begun))
        except (ConfigError, TidegateError) as e:
            error = f"{type(e).__name__}: {e}"
        except BaseException as e:
            if self.loop.dead:
                raise
            error = f"{type(e).__name__}: {e}"
            world.broken(f"the gateway ended: {error}")
        self.running = False
        self.loop.call_soon(self._ended, error)

    async def _begun(self, begun: anyio.Event) -> None:
        await begun.wait()
        self.running = True
        self._world.started(self)

    def _ended(self, error: str) -> None:
        self.loop.kill()
        self.machine.end()
        unlock_all(self._world.descriptors)
        if error:
            self._world.start_failed(self, error)
        else:
            self._world.ended(self)
            if self._then is not None:
                self._then()

    # -- operators --------------------------------------------------------------------------------------------------

    def stop(self, then: Callable[[], None] | None = None) -> None:
        """SIGTERM."""
        self._then = then or self._then
        if self._stop is not None:
            self.running = False
            self.loop.call_soon(self._stop.set)

    def reload(self) -> None:
        """SIGHUP, after the file has changed."""
        self.loop.call_soon(lambda: self.loop.create_task(self._reload()))

    async def _reload(self) -> None:
        assert self.gateway is not None
        service: Any = self.gateway.services["reload"]
        async with self._reloading:
            written = len(self._world.written) - 1
            faults = await service.reload()
        # the file may have changed while it was read: nobody can tell which one that was
        for number in self._world.written[written:]:
            self._world.reloaded(number, tuple(str(fault) for fault in faults))

    def pause(self, names: tuple[str, ...]) -> None:
        """Pauses these triggers."""
        self.loop.call_soon(self._pause, names)

    def _pause(self, names: tuple[str, ...]) -> None:
        if self.gateway is not None:
            self.gateway.pause(names)

    def replay(self, number: int, wanted: Replay) -> None:
        """Asks for a replay of past events."""
        self.loop.call_soon(lambda: self.loop.create_task(self._replay(number, wanted)))

    async def _replay(self, number: int, replay: Replay) -> None:
        from gateway_api.routes import Problem
        from gateway_replay.job import Wanted

        if self.gateway is None:
            return
        service: Any = self.gateway.services["replay"]
        zero_ns = self._world.now_ns() - int(self._world.scheduler.now * 1e9)
        since, until = (zero_ns + int(at * 1e9) for at in (replay.since, replay.until))
        try:
            jobs = await service.jobs()
            job = await jobs.start(
                Wanted(replay.trigger, since, until, (), replay.rate, replay.order, mark=True), "operator", "sim"
            )
        except Problem as e:
            if e.status not in (409, 503):  # another one runs, or the disk is full
                self._world.broken(f"replay {number}: {e.detail}")
            return
        self._world.replay_began(number, job.id)

    def rewind(self, number: int, wanted: Rewind) -> None:
        """Asks for a rewind, unless one is under way."""
        self._ask_for_rewind(self.loop, self.gateway, number, wanted)

    def _ask_for_rewind(self, loop: Loop, gateway: Gateway | None, number: int, wanted: Rewind) -> None:
        if self._rewinding is None or self._rewinding is not gateway:
            loop.call_soon(lambda: loop.create_task(self._rewind(gateway, number, wanted)))

    async def _rewind(self, gateway: Gateway | None, number: int, wanted: Rewind) -> None:
        from gateway_api.routes import Problem
        from gateway_replay.rewinds import Rewinder

        if gateway is None or not gateway.started:
            return
        world = self._world
        self._rewinding, asked = gateway, world.scheduler.now
        world.rewind_asked(number)
        zero_ns = world.now_ns() - int(world.scheduler.now * 1e9)
        try:
            await Rewinder(gateway).rewind(wanted.trigger, zero_ns + int(wanted.to * 1e9))
        except Problem as e:
            if e.status not in (409, 503):  # it stops, a worker is gone, or attempts take too long
                world.broken(f"rewind {number}: {e.detail}")
            return
        finally:
            self._rewinding = None
        world.rewind_done(number, asked)

    def operate(self, number: int, operation: Operation) -> None:
        """Cancels an event that waits, or asks for it now."""
        self.loop.call_soon(self._operate, number, operation)

    def _operate(self, number: int, operation: Operation) -> None:
        trigger = self.gateway.topology.triggers.get(operation.trigger) if self.gateway is not None else None
        if trigger is not None and isinstance(feed := trigger.feed, Delaying):
            change = feed.cancel if operation.what == "cancel" else feed.deliver_now
            self._world.operated(number, change(operation.id, SOURCE))

    # -- its state --------------------------------------------------------------------------------------------------

    def report(self) -> None:
        """Its status goes to the history."""
        if self.gateway is not None and self.gateway.started:
            document = msgspec.to_builtins(self.gateway.status())
            for key in ("pid", "uptime_s", "processes", "data_dir", "version"):
                document.pop(key, None)
            self._world.status(self, document)

    def resting(self) -> str:
        """What it still has to do, "" if nothing."""
        gateway = self.gateway
        if gateway is None or not self.running:
            return "the gateway starts"
        if self._reloading.locked():
            return "the gateway reloads"
        for trigger in gateway.topology.triggers.values():
            if isinstance(trigger, Trigger):
                subscription = trigger.subscription
                if subscription.held or subscription.feed.lag():
                    return f"{trigger.name}: {subscription.held} held, lag {subscription.feed.lag()}"
                if (condition := trigger.condition()).reason == "FeedFails":
                    return f"{trigger.name}: {condition.message}"
        for bridge in gateway.topology.bridges.values():
            if bridge.bridge.subscription.held:
                return f"{bridge.name}: {bridge.bridge.subscription.held} held"
        for broker in gateway.topology.brokers.values():
            info = broker.channel.info()
            if not info["writable"] or info.get("waiting_bytes"):
                return f"{broker.name}: {info['error']}"
        world = self._world
        if world.plan.later and (due := later_ends.due(gateway)):
            return due
        if world.plan.replays and (jobs := getattr(gateway.services["replay"], "_jobs", None)) is not None:
            for job in jobs.known.values():
                if not job.ended:
                    return f"replay {job.id} is {job.state}: {job.detail}"
        config = world.plan.configs[world.config]
        return world.cluster.resting(config) or world.queues.resting(config)

    # -- crashes ----------------------------------------------------------------------------------------------------

    def crash_in(self, steps: int, crashed: Callable[[], None]) -> None:
        """Ends at the n-th change of a file from now, or at once (0). `crashed` is called then, outside of it."""
        disk, scheduler = self._world.disk, self._world.scheduler

        def stopped() -> None:
            self.die()
            scheduler.at(scheduler.now, lambda: crashed() if self._world.gateway is self else None)

        disk.on_stop = stopped
        if steps:
            disk.stop_at(disk.steps + steps)
        else:
            disk.stop()

    def die(self) -> None:
        """None of its code runs any more."""
        self.loop.dead = True

    # -- its end ----------------------------------------------------------------------------------------------------

    def kill(self, *, dark: bool = False) -> None:
        """kill -9, or with its machine (`dark`)."""
        self.running = False
        with unheard():
            self.loop.kill()
        unlock_all(self._world.descriptors)
        self.machine.end(dark=dark)

    def dispose(self) -> None:
        """Its objects may go."""
        with unheard():
            self.gateway = None
