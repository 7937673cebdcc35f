"""When `gateway_transport.connection.Connection` connects again, and what it tells. Time jumps in these tests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from gateway_transport.connection import FIRST_S, LONGEST_S, Connection, Rejected

from gateway_core.contract.errors import StartError
from tests.transport.jumping import JumpingLoop

pytestmark = [pytest.mark.anyio, pytest.mark.spec("TR-06")]
AWAY = ConnectionRefusedError(111, "Connection refused")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": JumpingLoop}


class Remote:
    """The remote side. Each of `steps` is one try: an error instead of a connection, or the seconds that a connection
    lasts. Then connections last."""

    def __init__(self, *steps: BaseException | float) -> None:
        self._steps = list(steps)
        self.began: list[float] = []
        self.ended: list[float] = []
        self.connection = Connection("owner", "Server at x", self._session)

    async def _session(self, connected: Callable[[], None]) -> None:
        self.began.append(anyio.current_time())
        try:
            step = self._steps.pop(0) if self._steps else float("inf")
            if isinstance(step, BaseException):
                raise step
            connected()
            await (anyio.sleep_forever() if step == float("inf") else anyio.sleep(step))
            raise ConnectionResetError(104, "Connection reset by peer")
        finally:
            self.ended.append(anyio.current_time())

    @property
    def waits(self) -> list[float]:
        """The seconds between two tries."""
        return [began - ended for began, ended in zip(self.began[1:], self.ended, strict=False)]

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Connection]:
        async with anyio.create_task_group() as tasks:
            await self.connection.start(tasks)
            yield self.connection
            await self.connection.stop()
            assert self.connection.connected is False


def state(connection: Connection) -> tuple[bool, str | None, int]:
    return connection.connected, connection.error, connection.losses


def assert_about(waits: list[float], wanted: list[float]) -> None:
    """Each wait is as wanted, minus up to a half."""
    assert len(waits) == len(wanted), waits
    for wait, most in zip(waits, wanted, strict=True):
        assert most / 2 - 1e-6 <= wait <= most + 1e-6, (waits, wanted)


async def test_it_waits_twice_as_long_after_each_failure() -> None:
    remote = Remote(*[AWAY] * 9)
    async with remote.started():
        await anyio.sleep(100)
    assert_about(remote.waits, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, LONGEST_S, LONGEST_S, LONGEST_S])


async def test_waits_differ_by_chance() -> None:
    """Else all clients of a server that was down come back at the same moment."""
    remotes = [Remote(AWAY), Remote(AWAY), Remote(AWAY)]
    for remote in remotes:
        async with remote.started():
            await anyio.sleep(1)
    assert len({round(remote.waits[0], 6) for remote in remotes}) == 3


@pytest.mark.parametrize("lasted", [1.7, 60.0, 3600.0])
async def test_after_a_connection_that_worked_it_is_quick_again(lasted: float) -> None:
    remote = Remote(*[AWAY] * 4, lasted, lasted, AWAY)
    async with remote.started():
        await anyio.sleep(10_000)
    assert_about(remote.waits, [0.2, 0.4, 0.8, 1.6, 0.2, 0.2, 0.4])


async def test_a_connection_shorter_than_the_wait_before_it_is_one_more_failure() -> None:
    remote = Remote(*[AWAY] * 6, 2.0, 3.0)
    async with remote.started():
        await anyio.sleep(100)
    assert_about(remote.waits, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, LONGEST_S, LONGEST_S])


@pytest.mark.parametrize("lasted", [0.0, 0.3, 0.9])
async def test_a_server_that_ends_each_connection_at_once_gets_few(lasted: float) -> None:
    """Also one that two clients with the same name are at, each ending the other's connection."""
    remote = Remote(*[lasted] * 1000)
    async with remote.started():
        await anyio.sleep(600)
    assert len(remote.began) < 150, "the waits do not grow"
    assert remote.connection.losses in (len(remote.began), len(remote.began) - 1)


async def test_start_returns_once_connected() -> None:
    remote = Remote()
    assert "not connected yet" in str(remote.connection.error)
    async with remote.started() as connection:
        assert anyio.current_time() == 0.0
        assert state(connection) == (True, None, 0)


async def test_start_returns_at_the_first_failure_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    remote = Remote(AWAY)
    async with remote.started() as connection:
        assert anyio.current_time() == 0.0
        assert state(connection) == (False, "Server at x: Connection refused", 0)
        await anyio.sleep(1)
        assert state(connection) == (True, None, 0)


async def test_start_returns_after_a_while_if_the_server_is_silent() -> None:
    class Silent(Remote):
        async def _session(self, connected: Callable[[], None]) -> None:
            await anyio.sleep(30)
            connected()
            await anyio.sleep_forever()

    async with Silent().started() as connection:
        assert (anyio.current_time(), connection.connected) == (FIRST_S, False)
        await anyio.sleep(30)
        assert connection.connected


async def test_one_that_is_rejected_at_its_first_try_does_not_start() -> None:
    remote = Remote(ExceptionGroup("of a task group", [Rejected("bad password")]))
    with pytest.raises(ExceptionGroup) as raised:
        async with remote.started():
            pass
    (error,) = raised.value.exceptions
    assert isinstance(error, StartError)
    assert str(error) == "owner: Server at x: bad password"
    await remote.connection.stop()
    await anyio.sleep(60)
    assert len(remote.began) == 1


@pytest.mark.parametrize("before", [AWAY, 0.5])
async def test_one_that_is_rejected_later_tries_again(before: BaseException | float) -> None:
    remote = Remote(before, Rejected("bad password"))
    async with remote.started() as connection:
        await anyio.sleep(0.5 + 0.2 + 0.01 if before == 0.5 else 0.21)
        assert connection.error == "Server at x: bad password"
        await anyio.sleep(1)
        assert connection.connected


async def test_a_stop_ends_a_wait() -> None:
    remote = Remote(*[AWAY] * 20)
    async with remote.started() as connection:
        await anyio.sleep(30)
        before, tries = anyio.current_time(), len(remote.began)
        await connection.stop()
        assert anyio.current_time() == before
        await anyio.sleep(60)
        assert len(remote.began) == tries


async def test_a_stop_ends_the_session_and_waits_until_it_has_ended() -> None:
    closed = False

    async def session(connected: Callable[[], None]) -> None:
        nonlocal closed
        connected()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            closed = True

    async with anyio.create_task_group() as tasks:
        connection = Connection("owner", "Server at x", session)
        await connection.start(tasks)
        await connection.stop()
        assert (closed, connection.connected) == (True, False)


async def test_the_log_has_one_line_each_way(caplog: pytest.LogCaptureFixture) -> None:
    odd = OSError("odd\nINFO forged")
    with caplog.at_level(logging.INFO, "tidegate.transport"):
        remote = Remote(*[AWAY] * 5, odd, odd, 60.0, ConnectionResetError(104, "Connection reset by peer"), AWAY)
        async with remote.started():
            await anyio.sleep(600)
    lines = [record.getMessage() for record in caplog.records]
    assert not any("\n" in line for line in lines)
    assert lines[0] == "owner can't connect, and tries again: Server at x: Connection refused"
    assert lines[1].startswith("owner can't connect, and tries again: Server at x: odd")
    assert lines[2:] == [
        "owner is connected: Server at x",
        "owner lost its connection: Server at x: Connection reset by peer",
        "owner can't connect, and tries again: Server at x: Connection refused",
        "owner is connected: Server at x",
    ]


async def test_the_first_connection_is_no_line_and_losses_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tidegate.transport"):
        remote = Remote(60.0, 60.0)
        async with remote.started() as connection:
            assert caplog.records == []
            await anyio.sleep(200)
            assert connection.losses == 2
    assert len(caplog.records) == 4


async def test_a_session_that_returns_is_a_connection_that_ended() -> None:
    tries = 0

    async def session(connected: Callable[[], None]) -> None:
        nonlocal tries
        tries += 1

    async with anyio.create_task_group() as tasks:
        connection = Connection("owner", "Server at x", session)
        await connection.start(tasks)
        assert connection.error == "Server at x: the connection ended"
        await anyio.sleep(1)
        assert tries > 1
        await connection.stop()


async def test_a_loss_for_the_same_reason_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    remote = Remote(*[0.5] * 40)
    with caplog.at_level(logging.INFO, "tidegate.transport"):
        async with remote.started():
            await anyio.sleep(1000)
            said = [record.getMessage() for record in caplog.records]
    lost = [text for text in said if "lost its connection" in text]
    assert 2 < len(lost) < 12, lost
    assert "times more since it was last said" in lost[-1]
    assert "is connected" in said[-1], "the last line is true"
