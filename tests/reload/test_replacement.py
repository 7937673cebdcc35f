"""A change of the config as others see it: all at once, with no gap in what is ready and counted, and before a stop."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from gateway_testing import ScriptedSink

from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.event import Event
from gateway_core.runtime.gateway import Gateway
from gateway_core.runtime.replacement import plan
from tests.delivery.gateway_rig import Parts, change, running, until

pytestmark = pytest.mark.anyio

ONE: dict[str, Any] = {
    "brokers": {"b": {"ingress": ["tap"], "dead_letter": "far"}},
    "triggers": {"t": {"broker": "b", "subscriber": "far"}},
}
TWO: dict[str, Any] = {
    "brokers": {**ONE["brokers"], "second": {"ingress": ["pull"], "dead_letter": "far"}},
    "triggers": {**ONE["triggers"], "u": {"broker": "second", "subscriber": "letters"}},
}
OTHER = {**ONE, "triggers": {"t": {"broker": "b", "subscriber": "letters"}}}


def an_event(id: str) -> Event:
    return Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t"}, None)


def config(values: dict[str, Any]) -> GatewayConfig:
    return GatewayConfig.model_validate(values)


class Slow(ScriptedSink):
    """Its start, or its stop, waits for `go`."""

    def __init__(self, at: str) -> None:
        super().__init__(address="letters:")
        self.at = at
        self.waits, self.go = anyio.Event(), anyio.Event()
        self.lives: list[str] = []

    async def start(self, tasks: TaskGroup) -> None:
        self.lives.append("start")
        await self._wait("start")

    async def stop(self) -> None:
        self.lives.append("stop")
        await self._wait("stop")

    async def _wait(self, at: str) -> None:
        if self.at == at:
            self.waits.set()
            await self.go.wait()


async def changed(gateway: Gateway, values: dict[str, Any]) -> None:
    _, failed = await change(gateway, config(values))
    assert failed == {}


@pytest.mark.spec("SAFE-04")
async def test_what_runs_changes_at_once(tmp_path: Path) -> None:
    """Whoever has looked at the parts keeps those, as they were."""
    slow = Slow("start")
    async with running(Parts(letters=slow), ONE, tmp_path) as gateway, anyio.create_task_group() as tasks:
        before = gateway.topology
        tasks.start_soon(changed, gateway, TWO)
        await slow.waits.wait()
        assert ([*gateway.topology.brokers], [*gateway.topology.triggers]) == (["b"], ["t"])
        slow.go.set()
        await until(lambda: "u" in gateway.topology.triggers)
        assert gateway.topology.brokers.keys() == {"b", "second"}
        assert ([*before.brokers], [*before.triggers]) == (["b"], ["t"])


@pytest.mark.spec("SAFE-04")
async def test_the_gateway_is_ready_while_a_broker_ends(tmp_path: Path) -> None:
    slow = Slow("stop")
    async with running(Parts(letters=slow), TWO, tmp_path) as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(changed, gateway, ONE)
        await slow.waits.wait()
        assert gateway.ready
        assert [broker.name for broker in gateway.status().brokers] == ["b"]
        slow.go.set()


@pytest.mark.spec("SAFE-04")
async def test_counts_have_no_gap_while_a_trigger_is_replaced(tmp_path: Path) -> None:
    slow, parts = Slow("start"), Parts()
    parts.letters = slow
    async with running(parts, ONE, tmp_path) as gateway, anyio.create_task_group() as tasks:
        parts.tap.put(an_event("1"))
        await until(lambda: gateway.status().triggers[0].delivered == 1)
        tasks.start_soon(changed, gateway, OTHER)
        await slow.waits.wait()
        assert [(t.name, t.delivered) for t in gateway.status().triggers] == [("t", 1)]
        slow.go.set()
        await until(lambda: gateway.status().triggers[0].subscriber == "letters:")
        parts.tap.put(an_event("2"))
        await until(lambda: gateway.status().triggers[0].delivered == 2)


@pytest.mark.spec("SAFE-04")
async def test_a_stop_waits_for_a_change_and_stops_what_it_has_started(tmp_path: Path) -> None:
    slow = Slow("start")
    async with anyio.create_task_group() as tasks:
        async with running(Parts(letters=slow), ONE, tmp_path) as gateway:
            tasks.start_soon(changed, gateway, OTHER)
            await slow.waits.wait()
            tasks.start_soon(_go_once_it_stops, gateway, slow)
        assert slow.lives == ["start", "stop"]


async def _go_once_it_stops(gateway: Gateway, slow: Slow) -> None:
    await until(lambda: gateway.stopping)
    slow.go.set()


@pytest.mark.spec("SAFE-04")
async def test_a_change_that_does_not_end_does_not_hold_up_a_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow("start")
    async with anyio.create_task_group() as tasks:
        async with running(Parts(letters=slow), ONE, tmp_path, drain_timeout_s=0.1) as gateway:
            tasks.start_soon(change, gateway, config(OTHER))
            await slow.waits.wait()
        assert slow.lives == ["start"]
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "a change of the config is still under way after 0.1 s, and is ended" in said


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({**TWO, "triggers": {"t": {"broker": "second", "subscriber": "far"}}}, "triggers.t.broker"),
        ({**ONE, "observers": ["seen"]}, "observers"),
        ({**ONE, "brokers": {"b": {**ONE["brokers"]["b"], "channel": "other"}}}, "brokers.b.channel"),
    ],
)
async def test_what_needs_a_restart_is_refused_and_changes_nothing(
    values: dict[str, Any], path: str, tmp_path: Path
) -> None:
    async with running(Parts(), ONE, tmp_path) as gateway:
        before = gateway.topology
        with pytest.raises(ConfigError) as refused:
            await gateway.replace_config(config(values))
        assert [fault.path for fault in refused.value.faults] == [path]
        assert (gateway.topology, gateway.config) == (before, config(ONE))


@pytest.mark.spec("ONCE-05")
@pytest.mark.parametrize("other", [{}, {"window": 120}, {"window": 60, "key": ["id"]}], ids=str)
def test_how_a_broker_deduplicates_needs_a_restart(other: dict[str, Any]) -> None:
    def of(deduplicate: dict[str, Any]) -> GatewayConfig:
        return config({"brokers": {"b": {"deduplicate": deduplicate or None}}})

    assert not plan(of({"window": "1m"}), of({"window": 60}))
    with pytest.raises(ConfigError) as failed:
        plan(of({"window": 60}), of(other))
    assert [fault.path for fault in failed.value.faults] == ["brokers.b.deduplicate"]
