"""Parts that raise what nobody expects, in the middle of a reload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import ScriptedSink

from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.errors import StartError, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.outcome import Outcome
from tests.delivery.gateway_rig import Parts, Pull, change, running, until

pytestmark = pytest.mark.anyio

OLD = {
    "brokers": {"b": {"ingress": ["tap"], "dead_letter": "far"}},
    "triggers": {"t": {"broker": "b", "subscriber": "far"}},
}
WITH_BRIDGE = {**OLD, "bridges": {"across": {"source": "pull", "sink": "letters"}}}


class Bad(Pull, ScriptedSink):
    """A source and a sink that raise at their start or at their stop."""

    address = "bad:"

    def __init__(self, error: Exception, at: str) -> None:
        ScriptedSink.__init__(self, address="bad:")
        self.at, self.error_raised = at, error

    async def start(self, *args: Any) -> None:
        if self.at == "start":
            raise self.error_raised

    async def stop(self) -> None:
        if self.at == "stop":
            raise self.error_raised

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        ScriptedSink.send(self, event, timeout_s, done)


def an_event(id: str) -> Event:
    return Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t"}, None)


@pytest.mark.spec("SAFE-04")
@pytest.mark.parametrize("error", [StorageError("the disk is gone"), OSError(5, "Input/output error"), ValueError("x")])
@pytest.mark.parametrize("where", ["pull", "letters"])
async def test_what_a_part_raises_is_a_failed_part_and_no_more(tmp_path: Path, error: Exception, where: str) -> None:
    parts = Parts()
    setattr(parts, where, Bad(error, "start"))
    async with running(parts, OLD, tmp_path) as gateway:
        _, failed = await change(gateway, GatewayConfig.model_validate(WITH_BRIDGE))
        assert ("bridges", "across") in failed
        assert str(error) in failed["bridges", "across"]
        parts.tap.put(an_event("1"))
        await until(lambda: len(parts.far.sent) == 1)
        getattr(parts, where).at = ""
        again, failed = await change(gateway, GatewayConfig.model_validate(WITH_BRIDGE))
        assert (again, failed) == ("added bridges across", {})


@pytest.mark.spec("SAFE-04")
@pytest.mark.parametrize("where", ["pull", "letters"])
async def test_what_a_part_raises_at_its_end_ends_only_the_part(tmp_path: Path, where: str) -> None:
    parts = Parts()
    setattr(parts, where, Bad(OSError(5, "Input/output error"), "stop"))
    async with running(parts, WITH_BRIDGE, tmp_path) as gateway:
        _, failed = await change(gateway, GatewayConfig.model_validate(OLD))
        assert failed == {}
        parts.tap.put(an_event("1"))
        await until(lambda: len(parts.far.sent) == 1)


class LeavesLate(ScriptedSink):
    """While it stops, the config changes."""

    def __init__(self) -> None:
        super().__init__(address="letters:")
        self.changing: Callable[[], Any] | None = None

    async def stop(self) -> None:
        if self.changing is not None:
            change_now, self.changing = self.changing, None
            await change_now()


@pytest.mark.spec("SAFE-04")
async def test_a_reload_during_a_stop_ends_neither(tmp_path: Path) -> None:
    """It is refused: what it would start, nobody would stop."""
    letters = LeavesLate()
    more = {**WITH_BRIDGE, "bridges": {**WITH_BRIDGE["bridges"], "second": {"source": "pull", "sink": "letters"}}}
    came: list[str] = []

    async def reload() -> None:
        with pytest.raises(StartError) as refused:
            await change(gateway, GatewayConfig.model_validate(more))
        came.append(str(refused.value))

    async with running(Parts(letters=letters), WITH_BRIDGE, tmp_path) as gateway:
        letters.changing = reload
    assert came == ["the gateway is starting or stopping: its config can't be changed now"]
