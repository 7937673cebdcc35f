"""The remote side of a source that fetches its events, and how a suite uses both."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gateway_core.contract.capabilities import Watched
from gateway_core.contract.interfaces import Source

from ..vectors import VECTORS, Vector
from .kit import Kit, Suite, patience_s, until
from .memory_intake import MemoryIntake, ids_of

BASE = next(v for v in VECTORS if v.name == "text")
MOMENT_S = 0.05
"""How long a suite looks for something that must not happen."""


class SourceRemote:
    """Where a source fetches its events: a queue, a topic, a subscription at a real server. It keeps what was not
    acknowledged. Derive from it; methods that block belong in a thread (`anyio.to_thread`).

    A server of the test run is enough: `gateway_testing.link.Link` cuts the connection to it.
    """

    async def open(self) -> None:
        """Before the first source starts."""

    async def close(self) -> None:
        """After the last one has stopped, whatever happened."""

    async def publish(self, vector: Vector) -> None:
        """Publishes an event, in any content mode. Returns once the server has it."""
        raise NotImplementedError

    async def nonsense(self) -> None:
        """Publishes a message that is not an event."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Ends all connections, and allows no new one. What was published stays."""
        raise NotImplementedError

    async def take(self) -> None:
        """Is back, after `leave`."""
        raise NotImplementedError

    async def acknowledged(self) -> int | None:
        """How many messages the source has acknowledged; None if the server can't tell. With it the suite looks
        closer."""
        return None


class SourceRemoteSuite(Suite):
    """The parts of `PullingSourceSuite` that are no tests."""

    def remote(self, kit: Kit) -> SourceRemote:
        raise NotImplementedError

    def build(self, kit: Kit, remote: Any, **options: Any) -> Source:
        """The source, with more options than the ones it has anyway (`codec`)."""
        raise NotImplementedError

    async def ready(self, source: Source) -> None:
        """Returns once the source fetches. Called after each start while the remote side is there, and after it has
        come back."""
        await self.until(lambda: error_of(source) is None, "the source to have no `error` in `info`")

    # -- parts -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def opened(self, kit: Kit) -> AsyncIterator[SourceRemote]:
        """The remote side, for the length of a test."""
        remote = self.remote(kit)
        await remote.open()
        try:
            yield remote
        finally:
            with anyio.CancelScope(shield=True):
                await remote.close()

    @asynccontextmanager
    async def running(
        self,
        kit: Kit,
        remote: SourceRemote,
        *,
        source: Source | None = None,
        stores: bool = True,
        away: bool = False,
        **options: Any,
    ) -> AsyncIterator[tuple[Source, MemoryIntake]]:
        """A source that has started, and its intake; stopped at the end. `stores` is that of the intake; if the remote
        side is `away`, the source can't be ready."""
        source = self.build(kit, remote, **options) if source is None else source
        intake = MemoryIntake()
        intake.stores = stores
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(patience_s()):
                await source.start(intake, tasks)
            assert source.address, "the address must be known after start"
            if not away:
                await self.ready(source)
            yield source, intake
            with anyio.move_on_after(patience_s()) as limit:
                await source.stop()
            assert not limit.cancelled_caught, f"the stop did not end within {patience_s():g} s"
            tasks.cancel_scope.cancel()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a condition; fails after 30 s."""
        await until(condition, what)

    def _workers(self, kit: Kit, remote: SourceRemote) -> tuple[Source, Source]:
        kit.workers = 2
        one = self.build(kit, remote)
        kit.worker = 1
        two = self.build(kit, remote)
        kit.worker, kit.workers = 0, 1
        return one, two

    async def _publish(self, remote: SourceRemote, first: int, end: int) -> None:
        for name in names(first, end):
            await remote.publish(BASE.with_id(name))

    async def _until_safe(self, intake: MemoryIntake, first: int, end: int, without: str = "") -> None:
        wanted = {name for name in names(first, end) if name != without}
        await self.until(lambda: wanted <= set(ids_of(intake.safe)), f"the events n{first} to n{end - 1}")

    async def _settled(self, remote: SourceRemote, count: int) -> bool:
        """Waits until the server knows that so many messages are acknowledged. False if it can't tell."""
        known = await remote.acknowledged()
        with anyio.move_on_after(patience_s()):
            while known is not None and known < count:
                await anyio.sleep(0.01)
                known = await remote.acknowledged()
        assert known in (None, count), f"{known} messages are acknowledged; {count} were safe"
        return known is not None

    async def _outage(self, remote: SourceRemote, source: Source) -> None:
        await remote.leave()
        await self.until(lambda: error_of(source) is not None, "`info` to name the outage as `error`")
        await remote.take()
        await self.ready(source)

    async def _again(self, kit: Kit, remote: SourceRemote, wanted: Sequence[str] = ()) -> list[str]:
        """The ids that a source gets after a restart, besides that of one more event; each once, in order of ids."""
        async with self.running(kit, remote) as (_, intake):
            await remote.publish(BASE.with_id("last"))
            await self.until(lambda: {"last", *wanted} <= set(ids_of(intake.safe)), f"{[*wanted, 'last']} to come")
            await anyio.sleep(MOMENT_S)
            found = Counter([*ids_of(intake.safe), *ids_of(intake.buried)])
        del found["last"]
        return sorted(found, key=lambda name: (len(name), name))


def error_of(source: Source) -> str | None:
    """The `error` that it reports."""
    assert isinstance(source, Watched), "a source that fetches needs `info`"
    error = source.info()["error"]
    assert error is None or isinstance(error, str)
    return error


def names(first: int, end: int) -> list[str]:
    """The ids of numbered events."""
    return [f"n{n}" for n in range(first, end)]
