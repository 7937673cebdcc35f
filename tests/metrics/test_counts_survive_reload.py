"""Counts go on where they were when a reload replaces a trigger, a bridge or a dead letter."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_admin.metrics import render

from gateway_core.contract.component import Component, Config
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Outcome
from gateway_core.runtime.gateway import Gateway
from tests.delivery.gateway_rig import Parts, change, running, until

pytestmark = pytest.mark.anyio

CONFIG: dict[str, Any] = {
    "brokers": {"default": {"ingress": ["tap"], "dead_letter": "letters"}},
    "triggers": {"t": {"subscriber": "far", "delivery": {"retry": 1}}},
    "bridges": {"b": {"source": "pull", "sink": "far", "dead_letter": "letters", "delivery": {"retry": 1}}},
}
BUSY = Outcome(False, retry=True, reason="busy")
BAD = Outcome(False, code=400, reason="no")


class WithAttic(Parts):
    """One dead letter more."""

    @hookimpl
    def gateway_dead_letters(self) -> list[Component]:
        return [Component("attic", "A test's.", Config, lambda options, context: self.letters)]


def events(count: int) -> list[Event]:
    return [Event({"specversion": "1.0", "source": "/t", "type": "t", "id": str(n)}, b"x") for n in range(count)]


def changed(**entries: dict[str, Any]) -> GatewayConfig:
    config = copy.deepcopy(CONFIG)
    for section, entry in entries.items():
        for name, changes in entry.items():
            config[section][name] |= changes
    return GatewayConfig.model_validate(config)


def counters(gateway: Gateway) -> dict[str, float]:
    """Every series of the metrics that may only grow."""
    lines = [line.rpartition(" ") for line in render(gateway.status()).splitlines() if line[0] != "#"]
    series = {name: float(value) for name, _, value in lines if name.startswith("tidegate_")}
    return {
        name: value
        for name, value in series.items()
        if name.partition("{")[0].endswith(("_total", "_bucket", "_count", "_sum"))
    }


async def fill(parts: Parts, gateway: Gateway) -> None:
    """Deliveries, a retry, and a letter, by each way."""
    parts.far.default = BUSY
    before = len(parts.far.sent)
    parts.tap.put(*events(3))
    parts.pull.put(*events(2))
    await until(lambda: len(parts.far.sent) >= before + 2)
    parts.far.default = BAD
    await until(lambda: all(entry.lag == 0 for entry in [*gateway.status().triggers, *gateway.status().bridges]))
    parts.far.default = Outcome(True)
    stored = parts.tap.put(*events(4))
    parts.pull.put(*events(4))
    await until(lambda: stored)
    await until(lambda: all(entry.lag == 0 for entry in [*gateway.status().triggers, *gateway.status().bridges]))
    answers: list[Any] = []
    gateway.topology.brokers["default"].undeliverable(events(1)[0], BAD, "far:", answers.append)
    await until(lambda: answers)


@pytest.mark.slow
@pytest.mark.spec("SAFE-30")
async def test_no_counter_falls_over_reloads(tmp_path: Path) -> None:
    parts = WithAttic()
    async with running(parts, CONFIG, tmp_path) as gateway:
        await fill(parts, gateway)
        seen = counters(gateway)
        assert sum(seen.values()) > 30
        steps = [
            changed(triggers={"t": {"delivery": {"retry": 2}}}),
            changed(bridges={"b": {"delivery": {"retry": 3}}}),
            changed(brokers={"default": {"dead_letter": "attic"}}),
            changed(triggers={"t": {"filter": {"type": "t"}}}, bridges={"b": {"filters": [{"exact": {"type": "t"}}]}}),
        ]
        for step in steps[:3]:
            done, failed = await change(gateway, step)
            assert (bool(done), failed) == (True, {})
            after = counters(gateway)
            assert {k: v for k, v in seen.items() if after.get(k, -1) < v} == {}
            (trigger,) = gateway.status().triggers
            assert trigger.delivered >= 4
            await fill(parts, gateway)
            seen = counters(gateway)
        (trigger,) = gateway.status().triggers
        (bridge,) = gateway.status().bridges
        (broker,) = gateway.status().brokers
        assert (broker.accepted, broker.dead_lettered) == (28, 4)
        assert trigger.delivered + trigger.dead_lettered == 28
        assert bridge.delivered + bridge.dead_lettered == 24


@pytest.mark.spec("SAFE-30")
async def test_what_ends_late_is_counted_and_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    parts = Parts()
    parts.far._hold = True
    async with running(parts, CONFIG, tmp_path) as gateway:
        parts.pull.put(*events(3))
        await until(lambda: len(parts.far.held) == 3)
        parts.far.answer()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change, gateway, changed(bridges={"b": {"delivery": {"retry": 9}}}))
            await anyio.sleep(0.05)  # the old bridge waits for two attempts
            assert gateway.status().bridges[0].delivered == 1
            parts.far.answer()
            parts.far.answer()
        assert gateway.status().bridges[0].delivered == 3
        without = {name: section for name, section in CONFIG.items() if name != "bridges"}
        await change(gateway, GatewayConfig.model_validate(without))
        await change(gateway, GatewayConfig.model_validate(CONFIG))
        assert gateway.status().bridges[0].delivered == 0
