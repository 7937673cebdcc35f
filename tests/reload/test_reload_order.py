"""The order in which a reload stops and starts sources: one that fetches ends before its successor starts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup
from gateway_log import plugin as log_plugin
from gateway_reload import plugin as reload_plugin
from gateway_reload.service import ReloadService
from gateway_testing import ScriptedSink

from gateway_core.config.config_read import read_config
from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, Component, Config, Transport
from gateway_core.contract.errors import StartError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Intake, Source
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests.in_process import started

pytestmark = pytest.mark.anyio


class SessionConfig(Config):
    """A test's."""

    client: str
    topic: str = "t"


class Remote:
    """A broker with one session for each client id, and what happened to them, in order."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.told: list[str] = []
        self.refuses: set[str] = set()
        self.sink = ScriptedSink(address="far:")

    @hookimpl
    def gateway_transports(self) -> list[Transport]:
        def fetching(options: SessionConfig, context: BuildContext) -> Session:
            return Session(self, options)

        def listening(options: SessionConfig, context: BuildContext) -> Session:
            return Listening(self, options)

        def handing(options: SessionConfig, context: BuildContext) -> Session:
            return HandingOver(self, options)

        return [
            Transport("hands", source=Component("hands", "A test's.", SessionConfig, handing)),
            Transport("heard", sink=Component("heard", "A test's.", Config, lambda options, context: Heard(self))),
            Transport("fetches", source=Component("fetches", "A test's.", SessionConfig, fetching)),
            Transport("listens", source=Component("listens", "A test's.", SessionConfig, listening)),
            Transport("far", sink=Component("far", "A test's.", Config, lambda options, context: self.sink)),
        ]


class Session:
    """A source that fetches its events, and can't start while another one has its client id."""

    pulls = True

    def __init__(self, remote: Remote, options: SessionConfig) -> None:
        self.remote, self.client, self.topic = remote, options.client, options.topic
        self.address = f"fetches:{options.client}"

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        self.remote.told.append(f"start {self.client}/{self.topic}")
        if self.client in self.remote.sessions:
            raise StartError(f"the client id {self.client} is in use")
        self.remote.sessions[self.client] = self
        if self.topic in self.remote.refuses:
            raise StartError(f"there is no topic {self.topic}")

    async def stop(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.remote.told.append(f"stop {self.client}/{self.topic}")
        if self.remote.sessions.get(self.client) is self:
            del self.remote.sessions[self.client]


class Listening(Session):
    pulls = False


class HandingOver(Listening):
    """A source that takes over the address of the one before it."""

    async def take_over(self, old: Source, intake: Intake, tasks: TaskGroup) -> bool:
        assert isinstance(old, HandingOver)
        if old.client in self.remote.refuses:
            raise StartError(f"{self.client} can't take over")
        self.remote.told.append(f"{self.client} takes over from {old.client}")
        del self.remote.sessions[old.client]
        self.remote.sessions[self.client] = self
        return True


class Heard(ScriptedSink):
    """A sink that tells when it stops."""

    def __init__(self, remote: Remote) -> None:
        super().__init__(address="heard:")
        self._remote = remote

    async def stop(self) -> None:
        self._remote.told.append("stop sink")


@asynccontextmanager
async def running(remote: Remote, config: dict[str, Any], folder: Path) -> AsyncIterator[tuple[Gateway, Path]]:
    """A gateway with a config file, until the end of the block."""
    file = folder / "tidegate.yaml"
    file.write_text(json.dumps(config))
    registry = Registry()
    for name, plugin in (("remote", remote), ("log", log_plugin), ("reload", reload_plugin)):
        registry.add(name, plugin)
    settings = Settings(data_dir=folder / "data", admin="off", drain_timeout_s=5, reload="signal")
    read = read_config([file], settings, registry)
    gateway = Gateway(read.loaded.config, settings, registry, read=read)
    async with started(gateway):
        remote.told.clear()
        yield gateway, file


async def reload(gateway: Gateway, file: Path, config: dict[str, Any]) -> list[str]:
    """The faults of a reload of this config."""
    file.write_text(json.dumps(config))
    service = gateway.services["reload"]
    assert isinstance(service, ReloadService)
    return [str(fault) for fault in await service.reload()]


def brokers(**ingress: list[Any]) -> dict[str, Any]:
    return {"brokers": {name: {"ingress": sources, "dead_letter": "far"} for name, sources in ingress.items()}}


def fetches(client: str, topic: str = "t") -> dict[str, Any]:
    return {"fetches": {"client": client, "topic": topic}}


@pytest.mark.spec("TR-01")
async def test_a_source_that_fetches_stops_before_its_successor_starts(tmp_path: Path) -> None:
    remote = Remote()
    async with running(remote, brokers(b=[fetches("a", "one"), fetches("kept")]), tmp_path) as (gateway, file):
        assert await reload(gateway, file, brokers(b=[fetches("a", "two"), fetches("kept")])) == []
        assert remote.told == ["stop a/one", "start a/two"]
        assert {client: session.topic for client, session in remote.sessions.items()} == {"a": "two", "kept": "t"}
    assert remote.sessions == {}


@pytest.mark.spec("TR-01")
@pytest.mark.parametrize("order", ["bc", "cb"])
async def test_a_source_that_fetches_moves_to_another_broker(tmp_path: Path, order: str) -> None:
    remote = Remote()
    old = {"b": [fetches("a", "one"), fetches("x")], "c": [fetches("y")]}
    new = {"b": [fetches("x")], "c": [fetches("y"), fetches("a", "one")]}
    async with running(remote, brokers(**{name: old[name] for name in order}), tmp_path) as (gateway, file):
        assert await reload(gateway, file, brokers(**{name: new[name] for name in order})) == []
        assert remote.told == ["stop a/one", "start a/one"]


@pytest.mark.spec("TR-01")
async def test_one_that_cannot_start_is_a_fault_until_a_reload_starts_it(tmp_path: Path) -> None:
    """What it had opened by then is closed."""
    remote = Remote()
    remote.refuses.add("two")
    async with running(remote, brokers(b=[fetches("a", "one"), fetches("x")]), tmp_path) as (gateway, file):
        wanted = brokers(b=[fetches("a", "two"), fetches("x")])
        (fault,) = await reload(gateway, file, wanted)
        assert "there is no topic two" in fault
        assert "there is no topic two" in str(gateway.status().config.error)
        assert remote.told == ["stop a/one", "start a/two", "stop a/two"]
        assert list(remote.sessions) == ["x"]
        remote.refuses.clear()
        assert await reload(gateway, file, wanted) == []
        assert gateway.status().config.error is None
        assert sorted(remote.sessions) == ["a", "x"]


@pytest.mark.spec("TR-01")
async def test_a_source_that_listens_starts_before_its_predecessor_stops(tmp_path: Path) -> None:
    remote = Remote()
    old, new = brokers(b=[{"listens": {"client": "a"}}]), brokers(b=[{"listens": {"client": "b"}}])
    async with running(remote, old, tmp_path) as (gateway, file):
        assert await reload(gateway, file, new) == []
        assert remote.told == ["start b/t", "stop a/t"]


@pytest.mark.spec("AC-10")
async def test_a_source_hands_over_its_address_before_deliveries_are_waited_for(tmp_path: Path) -> None:
    """Else who may not come in any longer could send until a slow subscriber has answered."""
    remote = Remote()

    def wanted(client: str, retries: int) -> dict[str, Any]:
        trigger = {"subscriber": "heard", "delivery": {"retry": retries}, "broker": "b"}
        return {**brokers(b=[{"hands": {"client": client}}]), "triggers": {"t": trigger}}

    async with running(remote, wanted("a", 1), tmp_path) as (gateway, file):
        assert await reload(gateway, file, wanted("b", 2)) == []
        assert remote.told == ["b takes over from a", "stop sink"]
        assert list(remote.sessions) == ["b"]
        remote.refuses.add("b")
        (fault,) = await reload(gateway, file, wanted("c", 2) | wanted("b2", 2))
        assert "b2 can't take over" in fault
        assert list(remote.sessions) == []
    assert remote.sessions == {}


@pytest.mark.spec("AC-10")
@pytest.mark.parametrize("left", [{"kept": []}, {"other": []}], ids=["ingress", "broker"])
async def test_an_ingress_without_a_successor_closes_before_deliveries_are_waited_for(
    tmp_path: Path, left: dict[str, list[Any]]
) -> None:
    remote = Remote()
    listening = {"listens": {"client": "a"}}
    trigger = {"triggers": {"t": {"subscriber": "heard", "broker": "kept"}}}
    old = brokers(kept=[listening], other=[]) | trigger
    new = brokers(**left)
    if "kept" in left:
        new["triggers"] = {"t": trigger["triggers"]["t"] | {"delivery": {"retry": 3}}}
    async with running(remote, old, tmp_path) as (gateway, file):
        assert await reload(gateway, file, new) == []
        assert remote.told == ["stop a/t", "stop sink"]
        assert remote.sessions == {}


@pytest.mark.spec("TR-01")
async def test_a_bridge_too_stops_what_fetches_first(tmp_path: Path) -> None:
    remote = Remote()

    def bridge(topic: str) -> dict[str, Any]:
        return {"bridges": {"across": {"source": fetches("a", topic), "sink": "far"}}}

    async with running(remote, bridge("one"), tmp_path) as (gateway, file):
        assert await reload(gateway, file, bridge("two")) == []
        assert remote.told == ["stop a/one", "start a/two"]
