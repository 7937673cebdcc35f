"""A whole gateway in this process, with sources, sinks and dead letters that a test drives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from gateway_admin import plugin as admin_plugin
from gateway_inspect import plugin as inspect_plugin
from gateway_log import plugin as log_plugin
from gateway_testing import ScriptedSink

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock, Timer
from gateway_core.contract.component import BuildContext, Component, Config, Transport
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Place
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Intake
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests.in_process import started


class Hurried(SystemClock):
    """The waits of retries are short; what gives up on somebody who says nothing waits as long as ever."""

    def call_later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> Timer:
        return super().call_later(delay_s if delay_s > 40 else min(delay_s, 0.002), call, *args)


class Tap:
    """A source that gives what the test puts in."""

    address = "tap:"
    intake: Intake

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        self.intake = intake

    async def stop(self) -> None:
        return

    def put(self, *events: Event) -> list[BaseException | None]:
        """Hands the events over together; returns where the answer will be."""
        answers: list[BaseException | None] = []
        self.intake.accept(events, answers.append)
        return answers


class Pull(Tap):
    """One that fetches its events, and says how it is."""

    pulls = True
    error: str | None = None

    def info(self) -> dict[str, Any]:
        return {"address": self.address, "error": self.error, "lag": 7}


class Parts:
    """A plugin whose components the test has made before: `tap`, `pull`, `far` (a sink) and `letters`."""

    def __init__(self, far: Any = None, letters: Any = None) -> None:
        self.tap, self.pull = Tap(), Pull()
        self.far = far or ScriptedSink(address="far:")
        self.letters = letters or ScriptedSink(address="letters:")

    @hookimpl
    def gateway_transports(self) -> list[Transport]:
        def given(part: Any) -> Callable[[Any, BuildContext], Any]:
            return lambda options, context: part

        return [
            Transport("tap", source=Component("tap", "A test's.", Config, given(self.tap))),
            Transport("pull", source=Component("pull", "A test's.", Config, given(self.pull))),
            Transport("far", sink=Component("far", "A test's.", Config, given(self.far))),
            Transport("letters", sink=Component("letters", "A test's.", Config, given(self.letters))),
        ]


@asynccontextmanager
async def running(
    parts: Parts, config: dict[str, Any], folder: Path, drain_timeout_s: float = 5
) -> AsyncIterator[Gateway]:
    """The gateway, until the end of the block."""
    registry = Registry()
    registry.add("parts", parts)
    registry.add("log", log_plugin)
    registry.add("admin", admin_plugin)
    registry.add("inspect", inspect_plugin)
    settings = Settings(data_dir=folder, admin="off", drain_timeout_s=drain_timeout_s)
    gateway = Gateway(GatewayConfig.model_validate(config), settings, registry, Hurried())
    async with started(gateway):
        yield gateway


async def change(gateway: Gateway, config: GatewayConfig) -> tuple[str, dict[Place, str]]:
    """Changes the running gateway to this config. Returns what changed, and what could not be started."""
    return await gateway.replace_config(config)


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.001)
