"""Components that fail in the background, hang, or raise where they are asked: each is named, nobody else notices, and
conditions, health, status, metrics and the log agree."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from gateway_admin.metrics import render
from gateway_testing import ScriptedSink

from gateway_core.contract.component import Component, Config
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Intake, Observer
from gateway_core.runtime import component_tasks
from gateway_core.runtime.gateway import Gateway
from tests.delivery.gateway_rig import Parts, Pull, Tap, running, until

pytestmark = pytest.mark.anyio


class Dying:
    """A component whose background task raises when the test says so."""

    def __init__(self) -> None:
        self.die = anyio.Event()

    async def task(self) -> None:
        await self.die.wait()
        raise RuntimeError("the library gave up")


class DyingTap(Dying, Tap):
    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        tasks.start_soon(self.task)
        await super().start(intake, tasks)


class CancelledTap(DyingTap):
    """Its task waits for another one, which a library cancels."""

    async def task(self) -> None:
        await self.die.wait()
        await cancelled()


async def cancelled() -> None:
    other = asyncio.ensure_future(asyncio.sleep(60))
    other.cancel()
    await other


class DyingSink(Dying, ScriptedSink):
    def __init__(self, address: str) -> None:
        Dying.__init__(self)
        ScriptedSink.__init__(self, address=address)

    async def start(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self.task)


class DyingObserver(Dying, Observer):
    async def start(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self.task)


class More(Parts):
    """With an observer, and a second dead letter."""

    def __init__(self, far: Any = None, letters: Any = None) -> None:
        super().__init__(far, letters)
        self.observer: Any = Observer()
        self.other: Any = ScriptedSink(address="other:")

    @hookimpl
    def gateway_observers(self) -> list[Component]:
        return [Component("test", "A test's.", Config, lambda o, c: self.observer)]

    @hookimpl
    def gateway_dead_letters(self) -> list[Component]:
        return [Component("other", "A test's.", Config, lambda o, c: self.other)]


def event(n: int = 1) -> Event:
    return Event({"specversion": "1.0", "source": "/t", "type": "t", "id": str(n)}, b"x")


CONFIG = {
    "brokers": {"default": {"ingress": ["tap"], "dead_letter": "letters"}},
    "triggers": {"t": {"subscriber": "far", "dead_letter": "other"}},
    "observers": ["test"],
}
BRIDGE = {"bridges": {"b": {"source": "pull", "sink": "far", "dead_letter": "letters"}}}


def seen(gateway: Gateway, section: str, name: str) -> tuple[bool | None, str, str]:
    """What the condition, the status document and the metrics say of one entry; they must agree."""
    gateway.services["admin"].conditions.observe_all()
    condition = gateway.services["admin"].conditions.of(section, name).condition
    (entry,) = [e for e in gateway.status().entries(section) if e.name == name]
    assert (entry.ready, entry.reason, entry.condition) == tuple(condition)
    text = render(gateway.status())
    kind = section.removesuffix("s")
    (metric,) = [line for line in text.splitlines() if line.startswith(f'tidegate_{kind}_ready{{{kind}="{name}"')]
    assert metric.endswith(" 1") == condition.ready
    (whole,) = [line for line in text.splitlines() if line.startswith("tidegate_ready ")]
    assert whole.endswith(" 1") == gateway.ready == gateway.status().ready
    return condition.ready, condition.message, condition.reason


@pytest.mark.spec("SAFE-31")
async def test_a_broker_is_not_ready_while_its_only_source_is_dead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Parts()
    config = {"brokers": {"default": {"ingress": ["pull"], "dead_letter": "letters"}}}
    async with running(parts, config, tmp_path) as gateway:
        assert seen(gateway, "brokers", "default") == (True, "", "IngressOpen")
        parts.pull.error = "no broker of the cluster answers"
        ready, message, reason = seen(gateway, "brokers", "default")
        assert (ready, reason) == (False, "SourceFails")
        assert "no broker of the cluster answers" in message
        assert not gateway.ready
        parts.pull.error = None
        assert seen(gateway, "brokers", "default") == (True, "", "IngressOpen")
        assert gateway.ready
    told = [r.getMessage() for r in caplog.records if r.name == "tidegate"]
    assert len([line for line in told if "broker default is not ready" in line and "no broker of" in line]) == 1
    assert len([line for line in told if line == "broker default is ready again"]) == 1


@pytest.mark.spec("SAFE-31")
async def test_a_broker_with_another_way_in_is_ready_and_says_what_fails(tmp_path: Path) -> None:
    parts = Parts()
    config = {"brokers": {"default": {"ingress": ["pull", "tap"], "dead_letter": "letters"}}}
    async with running(parts, config, tmp_path) as gateway:
        parts.pull.error = "away"
        assert seen(gateway, "brokers", "default") == (True, "1 of 2 sources do not work: away", "IngressDegraded")


@pytest.mark.spec("SAFE-31")
async def test_a_bridge_whose_source_is_dead_is_not_ready(tmp_path: Path) -> None:
    parts = Parts()
    async with running(parts, BRIDGE, tmp_path) as gateway:
        assert seen(gateway, "bridges", "b") == (True, "", "Carrying")
        parts.pull.error = "away"
        assert seen(gateway, "bridges", "b") == (False, "away", "SourceFails")
        assert not gateway.ready


@pytest.mark.spec("SAFE-31", "SAFE-32")
@pytest.mark.parametrize(
    ("tap", "told"), [(DyingTap, "RuntimeError: the library gave up"), (CancelledTap, "CancelledError")]
)
async def test_a_task_of_a_source_that_raises_ends_alone(
    tap: type[DyingTap], told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = More()
    parts.tap = dying = tap()
    async with running(parts, CONFIG, tmp_path) as gateway:
        dying.die.set()
        await until(lambda: not gateway.ready)
        ready, message, reason = seen(gateway, "brokers", "default")
        assert (ready, reason) == (False, "SourceFails")
        assert told in message
        assert seen(gateway, "triggers", "t")[0] is True
        parts.tap.put(event())  # what still comes is delivered
        await until(lambda: parts.far.sent)
    assert any("brokers.default.ingress[0] (tap)" in r.getMessage() for r in caplog.records)


@pytest.mark.spec("SAFE-31", "SAFE-32")
@pytest.mark.parametrize("which", ["far", "other", "letters", "observer"])
async def test_a_task_of_a_sink_or_observer_that_raises_ends_alone(
    which: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = More()
    dying: Any = DyingObserver() if which == "observer" else DyingSink(f"{which}:")
    setattr(parts, which, dying)
    async with running(parts, CONFIG, tmp_path) as gateway:
        dying.die.set()
        await until(lambda: any("the library gave up" in r.getMessage() for r in caplog.records))
        broker, trigger = seen(gateway, "brokers", "default"), seen(gateway, "triggers", "t")
        assert (trigger[0], trigger[2]) == (
            (False, "ComponentFailed") if which in ("far", "other") else (True, "Delivering")
        )
        assert (broker[0], broker[2]) == (True, "DeadLetterFails" if which == "letters" else "IngressOpen")
        if which == "observer":
            assert "the library gave up" in gateway.status().observers[0].last_error
        parts.tap.put(event())
        await until(lambda: parts.far.sent)
    words = {"far": "triggers.t.subscriber", "other": "triggers.t.dead_letter", "observer": "observers[0] (test)"}
    place = words.get(which, "brokers.default.dead_letter")
    assert any(place in r.getMessage() for r in caplog.records)


@pytest.mark.pure
@pytest.mark.spec("SAFE-31")
async def test_a_look_at_the_status_survives_components_that_raise_when_asked(tmp_path: Path) -> None:
    class Mute(Pull):
        def info(self) -> dict[str, Any]:
            raise KeyError("lag")

    parts = Parts()
    parts.pull = Mute()
    config = {**CONFIG, **BRIDGE, "triggers": {"t": {"subscriber": "far"}}, "observers": []}
    async with running(parts, config, tmp_path) as gateway:
        assert seen(gateway, "bridges", "b")[2] == "SourceFails"
        channel = gateway.topology.brokers["default"].channel

        def raises() -> dict[str, Any]:
            raise OSError("no such file")

        channel.info = raises  # type: ignore[method-assign]
        ready, message, reason = seen(gateway, "brokers", "default")
        assert (ready, reason) == (False, "ChannelNotWritable")
        assert "no such file" in message


@pytest.mark.spec("SAFE-32")
async def test_a_start_that_hangs_is_named_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(component_tasks, "SAY_AFTER_S", 0.05)
    monkeypatch.setattr(component_tasks.started, "__defaults__", (0.2,))

    class Hangs(Observer):
        async def start(self, tasks: TaskGroup) -> None:
            await anyio.sleep_forever()

    parts = More()
    parts.observer = Hangs()
    with pytest.raises(BaseExceptionGroup) as caught:
        async with running(parts, CONFIG, tmp_path):
            pass
    fault = caught.value
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    assert isinstance(fault, StartError)
    assert str(fault) == "observers[0] (test): not started within 0.2 s"
    assert any("observers[0] (test) has not started yet" in r.getMessage() for r in caplog.records)


@pytest.mark.slow
@pytest.mark.spec("SAFE-32")
@pytest.mark.parametrize("part", ["tap", "far", "letters", "observer"])
@pytest.mark.parametrize("how", ["hangs", "raises", "is cancelled"])
async def test_a_stop_that_hangs_or_raises_keeps_nobody_from_stopping(
    part: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from gateway_core.runtime import parts as parts_module

    monkeypatch.setattr(parts_module, "STOP_S", 0.1)

    async def stop() -> None:
        if how == "raises":
            raise RuntimeError("no stopping this")
        if how == "is cancelled":
            await cancelled()
        await anyio.sleep_forever()

    parts = More()
    getattr(parts, part).stop = stop
    with anyio.fail_after(60):
        async with running(parts, CONFIG, tmp_path) as gateway:
            gateway._parts._drain_s = 0.2
            answers = parts.tap.put(event())
            await until(lambda: parts.far.sent and answers)
    assert answers == [None]
    told = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert len(told) == (0 if (part, how) == ("tap", "hangs") else 1), "a source's stop has the time of the drain"
    again = More()
    async with running(again, CONFIG, tmp_path):
        again.tap.put(event(2))
        await until(lambda: again.far.sent)
    assert [e.attributes["id"] for e in again.far.sent] == ["2"], "the place of the trigger was kept"
