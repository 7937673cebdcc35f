"""A log channel in a folder of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_log.channel import LogChannel
from gateway_log.config import LogConfig

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import Clock, SystemClock
from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Event
from gateway_core.contract.filters import match_all
from gateway_core.contract.interfaces import Filter
from gateway_core.contract.start_position import EARLIEST, LATEST, StartPosition
from tests.small_disk import PASSED_ELSEWHERE


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """A test that has passed where it may mount a disk does not run again where it may not."""
    return True if pyfuncitem.funcargs.get("disk") is PASSED_ELSEWHERE else None


class Subscriber:
    """Takes events while it holds fewer than `room`; acknowledges when the test says so, or at once."""

    def __init__(
        self,
        filter: Filter | None = None,
        *,
        room: int = 10**9,
        acks: bool = False,
        start: StartPosition | bool = False,
    ):
        self.filter = filter or match_all()
        self.room = room
        self.acks = acks
        self.start = EARLIEST if start is True else start or LATEST
        self.held: list[int] = []
        self.got: list[int] = []
        self.events: list[Event] = []
        self.feed: Any = None

    def offer(self, event: Event) -> bool:
        assert event.position is not None
        if len(self.held) >= self.room:
            return False
        self.got.append(event.position)
        self.events.append(event)
        if self.acks:
            self.feed.ack(event.position)
        else:
            self.held.append(event.position)
        return True

    def ack(self, *positions: int) -> None:
        for position in positions:
            self.held.remove(position)
            self.feed.ack(position)


class Log:
    """What tests do with logs."""

    Subscriber = Subscriber

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "log" / "default"
        self.running: list[LogChannel] = []

    def make(
        self, *, worker: int = 0, workers: int = 1, clock: Clock | None = None, path: Path | None = None, **config: Any
    ) -> LogChannel:
        context = BuildContext(
            *("brokers.default.channel", path or self.path, clock or SystemClock(), Registry()),
            worker=worker,
            workers=workers,
            broker="default",
        )
        return LogChannel(LogConfig.model_validate(config), context)

    async def open(self, subscribers: dict[str, Subscriber] | None = None, **options: Any) -> LogChannel:
        channel = self.make(**options)
        await channel.start(None)  # type: ignore[arg-type]
        self.running.append(channel)
        for name, s in (subscribers or {}).items():
            s.feed = channel.attach(name, s.filter, s, start=s.start)
        await channel.open()
        return channel

    async def stop(self, channel: LogChannel) -> None:
        self.running.remove(channel)
        await channel.stop()

    async def append(self, channel: LogChannel, events: Sequence[Event]) -> None:
        """Returns when the events are stored; raises what the channel answered else."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        channel.append(events, lambda e: answer.set_result(None) if e is None else answer.set_exception(e))
        await answer

    async def wait(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(30):
            while not condition():  # noqa: ASYNC110 - some conditions are in other threads
                await anyio.sleep(0.002)

    def event(self, n: int = 0, data: bytes | None = b"{}", **attributes: Any) -> Event:
        return Event({"specversion": "1.0", "id": str(n), "source": "/s", "type": "t", **attributes}, data)

    def events(self, count: int, first: int = 0, **attributes: Any) -> list[Event]:
        return [self.event(n, **attributes) for n in range(first, first + count)]


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    """Logs under a fresh folder; those still open at the end are stopped."""
    found = Log(tmp_path)
    yield found
    for channel in found.running:
        await channel.stop()


@pytest.fixture
def log_at() -> Callable[[Path], Log]:
    """For tests that make their own folders."""
    return Log


Wait = Callable[[Callable[[], bool]], Awaitable[None]]
