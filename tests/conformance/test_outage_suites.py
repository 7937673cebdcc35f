"""`ReconnectingSinkSuite` and `RemoteChannelSuite`, on components that are right, and with planted faults: each fails
the tests about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from gateway_testing.suites import Kit, ReconnectingSinkSuite, Remote, RemoteChannelSuite
from gateway_testing.suites.faulty_codec import RAISES
from gateway_testing.suites.kit import patience

from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Accepted, Channel, Outcome, Sink

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("real_time")]


class Shelf:
    """Keeps events, unless it is down."""

    def __init__(self) -> None:
        self.kept: list[Event] = []
        self.away = False
        self.outages = 0

    def __enter__(self) -> Shelf:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def events(self) -> list[Event]:
        return list(self.kept)

    def leave(self) -> None:
        self.away = True
        self.outages += 1

    def take(self) -> None:
        self.away = False


class ShelfSink:
    """`fault` names what it does wrong; "" for nothing. With `codec` it can't write one event."""

    address = "shelf:"

    def __init__(self, shelf: Shelf, fault: str = "", codec: str = "") -> None:
        self.shelf, self.fault, self.codec = shelf, fault, codec
        self.dead = False

    async def start(self, tasks: TaskGroup) -> None:
        if self.fault == "needs the remote side to start" and self.shelf.away:
            raise ConnectionRefusedError("the shelf is down")

    async def stop(self) -> None:
        while self.fault == "waits for the remote side at its end" and self.shelf.away:  # noqa: ASYNC110
            await anyio.sleep(0.01)

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        asyncio.get_running_loop().call_soon(self._put, event, done)

    def _put(self, event: Event, done: Callable[[Outcome], None]) -> None:
        shelf, fault = self.shelf, self.fault
        if self.codec and event.attributes["id"] == RAISES:
            self.dead = fault == "dies of a codec"
            done(Outcome(False, reason="encode: a bug in a codec"))
        elif shelf.away and fault == "says nothing in an outage":
            return
        elif shelf.away and fault == "answers twice in an outage":
            done(Outcome(False, retry=True, reason="away"))
            done(Outcome(False, retry=True, reason="away"))
        elif shelf.away and fault == "claims what is not there":
            done(DELIVERED)
        elif shelf.away or self.dead or (fault == "never reconnects" and shelf.outages):
            done(Outcome(False, retry=fault != "gives up in an outage", reason="the shelf is down"))
        else:
            shelf.kept.append(event)
            done(DELIVERED)


@pytest.mark.spec("TR-02")
class TestShelfSink(ReconnectingSinkSuite):
    fault = ""

    def remote(self, kit: Kit) -> Shelf:
        return Shelf()

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, Shelf)
        return ShelfSink(remote, self.fault)

    def with_codec(self, kit: Kit, remote: Remote, codec: str) -> Sink:
        assert isinstance(remote, Shelf)
        return ShelfSink(remote, self.fault, codec)


SINK_FAULTS = {
    "says nothing in an outage": ["it_delivers_again_when_the_remote_side_is_back"],
    "answers twice in an outage": ["an_outage_leaves_no_attempt_without_an_answer"],
    "claims what is not there": ["a_stop_ends_while_the_remote_side_is_away"],
    "gives up in an outage": ["it_delivers_again_when_the_remote_side_is_back"],
    "never reconnects": [
        "it_delivers_again_when_the_remote_side_is_back",
        "it_starts_while_the_remote_side_is_away_and_delivers_when_it_is_back",
    ],
    "needs the remote side to start": ["it_starts_while_the_remote_side_is_away_and_delivers_when_it_is_back"],
    "waits for the remote side at its end": ["a_stop_ends_while_the_remote_side_is_away"],
    "dies of a codec": ["a_codec_that_raises_costs_one_attempt"],
}


class ServedChannel:
    """The channel `log`, as if it were at a server. `fault` names what it does wrong."""

    def __init__(self, inner: Channel, kit: OutageKit, fault: str = "") -> None:
        self._inner = inner
        self._kit = kit
        self._fault = fault
        self._unanswered: list[Accepted] = []
        for name in ("start", "attach", "attach_reader", "detach", "open"):
            setattr(self, name, getattr(inner, name))

    @property
    def appended(self) -> int:
        return self._inner.appended

    def append(self, events: Any, done: Accepted) -> None:
        if not self._kit.away and not (self._fault == "never reconnects" and self._kit.outages):
            self._inner.append(events, done)
        elif self._fault == "claims what is not there":
            done(None)
        elif self._fault == "answers twice in an outage":
            done(StorageError("away"))
            done(StorageError("away"))
        elif self._fault == "says nothing in an outage":
            self._unanswered.append(done)
        else:
            done(StorageError("the server is down"))

    async def stop(self) -> None:
        while self._fault == "waits for the server at its end" and self._kit.away:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await self._inner.stop()

    def info(self) -> dict[str, Any]:
        away = self._kit.away
        return {**self._inner.info(), "error": "the server is down" if away else None}


class OutageKit(Kit):
    away = False
    outages = 0


@pytest.mark.spec("TR-02")
class TestServedChannel(RemoteChannelSuite):
    fault = ""

    @pytest.fixture
    def kit(self, tmp_path: Path) -> Kit:
        return OutageKit(tmp_path)

    def build(self, kit: Kit) -> Channel:
        assert isinstance(kit, OutageKit)
        served: Any = ServedChannel(kit.channel("log"), kit, self.fault)
        found: Channel = served
        return found

    async def leave(self, kit: Kit) -> None:
        assert isinstance(kit, OutageKit)
        kit.away, kit.outages = True, kit.outages + 1

    async def take(self, kit: Kit) -> None:
        assert isinstance(kit, OutageKit)
        kit.away = False


CHANNEL_FAULTS = {
    "says nothing in an outage": [
        "an_outage_loses_nothing_that_was_stored",
        "a_stop_ends_while_the_server_is_away",
    ],
    "answers twice in an outage": ["an_outage_loses_nothing_that_was_stored"],
    "claims what is not there": ["an_outage_loses_nothing_that_was_stored", "a_stop_ends_while_the_server_is_away"],
    "never reconnects": [
        "an_outage_loses_nothing_that_was_stored",
        "what_was_not_acknowledged_in_an_outage_comes_again",
    ],
    "waits for the server at its end": ["a_stop_ends_while_the_server_is_away"],
}


def _cases(faults: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(fault, name) for fault, names in faults.items() for name in names]


@pytest.mark.spec("TR-03")
@pytest.mark.parametrize(("fault", "name"), _cases(SINK_FAULTS))
async def test_a_planted_fault_of_a_sink_is_found(fault: str, name: str, tmp_path: Path) -> None:
    suite = TestShelfSink()
    suite.fault = fault
    with patience(0.3), pytest.raises((AssertionError, BaseExceptionGroup)):
        await getattr(suite, f"test_{name}")(Kit(tmp_path))


@pytest.mark.spec("TR-03")
@pytest.mark.parametrize(("fault", "name"), _cases(CHANNEL_FAULTS))
async def test_a_planted_fault_of_a_channel_is_found(fault: str, name: str, tmp_path: Path) -> None:
    suite = TestServedChannel()
    suite.fault = fault
    with patience(0.3), pytest.raises((AssertionError, BaseExceptionGroup)):
        await getattr(suite, f"test_{name}")(OutageKit(tmp_path))
