"""Source and sink on a cluster of three nodes, and behind Sentinel through a failover."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_dev.program import FoundProgram
from gateway_dev.redis_server import RedisServer
from gateway_java.ports import is_free
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import until

from gateway_core.contract.event import Event
from gateway_core.contract.outcome import Outcome
from tests.redis.conftest import plain

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("processes"), pytest.mark.spec("RD-12")]
SLOTS = 16384
SHORT_AND_LONG = pytest.mark.parametrize(
    "faults", [pytest.param(False, id="well"), pytest.param(True, id="faults", marks=pytest.mark.full)]
)


def event(id: str, **more: Any) -> Event:
    return Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t", **more}, id.encode())


class Sending:
    """Sends events again and again until they are delivered, as a gateway does."""

    def __init__(self, sink: Any) -> None:
        self.delivered: set[str] = set()
        self.reasons: set[str] = set()
        self._sink = sink

    def send(self, event: Event) -> None:
        def done(outcome: Outcome) -> None:
            if outcome.delivered:
                self.delivered.add(str(event.attributes["id"]))
                return
            assert outcome.retry, outcome
            self.reasons.add(outcome.reason)
            asyncio.get_running_loop().call_later(0.1, self.send, event)

        self._sink.send(event, 10, done)


async def through(
    kit: Kit, options: dict[str, Any], events: Sequence[Event], streams: Sequence[str], during: Any
) -> Any:
    """Sends the events, and reads them back while `during` happens. Returns the reasons for retries."""
    sink: Any = kit.sink("redis", {**options, "stream": "s.{region}"})
    source: Any = kit.source("redis", {**options, "stream": list(streams), "start": "0", "claim_idle_s": 1})
    intake = MemoryIntake()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        await source.start(intake, tasks)
        sending = Sending(sink)
        half = len(events) // 2
        for one in events[:half]:
            sending.send(one)
        await during()
        for one in events[half:]:
            sending.send(one)
        wanted = {str(one.attributes["id"]) for one in events}
        with anyio.fail_after(120):
            await until(lambda: sending.delivered == wanted, "the events to be delivered")
            await until(lambda: {str(e.attributes["id"]) for e in intake.events} >= wanted, "the events to be read")
        await until(lambda: source.info()["error"] is None and source.info()["lag"] == 0, "the acknowledgements")
        await source.stop()
        await sink.stop()
        tasks.cancel_scope.cancel()
    return sending.reasons


# -- a cluster --------------------------------------------------------------------------------------------------------


def ports(count: int) -> list[int]:
    """Free ports whose ports for the cluster's bus, 10,000 above, are free too."""
    tried = random.sample(range(15_000, 22_000), 200)
    return [port for port in tried if is_free(port) and is_free(port + 10_000)][:count]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[RedisServer]]:
    settings = "cluster-enabled yes\ncluster-node-timeout 2000"
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(RedisServer(tmp_path / f"node{n}", port, settings=settings))
            for n, port in enumerate(ports(3))
        ]
        bounds = [SLOTS * n // 3 for n in range(4)]
        for n, node in enumerate(nodes):
            with plain(node) as client:
                ask: Any = client.execute_command
                ask("CLUSTER", "ADDSLOTS", *range(bounds[n], bounds[n + 1]))
                ask("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
                if n:
                    ask("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        yield nodes


async def formed(nodes: Sequence[RedisServer]) -> None:
    def well() -> bool:
        states = []
        for node in nodes:
            with plain(node) as client:
                told: Any = client.execute_command("CLUSTER INFO")
                states.append(str(told))
        return all("'cluster_state': 'ok'" in s and "'cluster_known_nodes': '3'" in s for s in states)

    await until(well, "the cluster to form")


@SHORT_AND_LONG
async def test_streams_on_several_nodes_of_a_cluster(cluster: list[RedisServer], tmp_path: Path, faults: bool) -> None:
    await formed(cluster)

    async def during() -> None:
        if not faults:
            return
        await anyio.to_thread.run_sync(cluster[1].kill)
        await anyio.to_thread.run_sync(cluster[1].start)
        await formed(cluster)

    options = {"servers": f"127.0.0.1:{cluster[0].port}", "cluster": True}
    regions = [f"r{n}" for n in range(6)]
    events = [event(str(n), region=regions[n % 6]) for n in range(300)]
    await through(Kit(tmp_path), options, events, [f"s.{region}" for region in regions], during)
    keys = []
    for node in cluster:
        with plain(node) as client:
            found: Any = client.keys("s.*")
            keys.append(len(found))
    assert sum(keys) == 6
    assert sum(count > 0 for count in keys) > 1, "the streams are on several nodes"


async def test_without_cluster_the_outcome_says_what_is_missing(cluster: list[RedisServer], tmp_path: Path) -> None:
    await formed(cluster)
    sink: Any = Kit(tmp_path).sink("redis", {"servers": f"127.0.0.1:{cluster[0].port}", "stream": "s.{region}"})
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        for n in range(6):
            sink.send(event("1", region=f"r{n}"), 30, outcomes.append)
        await until(lambda: len(outcomes) == 6, "the outcomes")
        await sink.stop()
        tasks.cancel_scope.cancel()
    failed = [outcome for outcome in outcomes if not outcome.delivered]
    assert failed
    assert all(outcome.retry and "set `cluster: true`" in outcome.reason for outcome in failed)


# -- Sentinel ---------------------------------------------------------------------------------------------------------


class Sentinel(RedisServer):
    """One sentinel that watches a primary, and promotes a replica 1 s after its end."""

    def __init__(self, folder: Path, primary: int) -> None:
        super().__init__(folder)
        self._primary = primary

    def write_settings(self) -> None:
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"sentinel monitor mymaster 127.0.0.1 {self._primary} 1",
            "sentinel down-after-milliseconds mymaster 1000",
            "sentinel failover-timeout mymaster 5000",
        ]
        self._written("redis.conf", "\n".join([*lines, ""]))

    def command(self, found: FoundProgram) -> Sequence[str]:
        return [*super().command(found), "--sentinel"]


@SHORT_AND_LONG
async def test_the_primary_that_a_sentinel_names(tmp_path: Path, faults: bool) -> None:
    with ExitStack() as stack:
        fast = "repl-diskless-sync-delay 0"
        one = stack.enter_context(RedisServer(tmp_path / "one", settings=fast))
        two = stack.enter_context(RedisServer(tmp_path / "two", settings=f"replicaof 127.0.0.1 {one.port}\n{fast}"))
        sentinel = stack.enter_context(Sentinel(tmp_path / "sentinel", one.port))

        def role_of(server: RedisServer) -> Any:
            with plain(server) as client:
                facts: Any = client.info("replication")
                return facts

        def known() -> bool:
            with plain(sentinel) as client:
                told: Any = client.execute_command("SENTINEL", "REPLICAS", "mymaster")
                return len(told) == 1

        await until(lambda: role_of(two).get("master_link_status") == "up", "the replica to follow")
        await until(known, "the sentinel to know the replica")

        async def during() -> None:
            if not faults:
                return
            await anyio.to_thread.run_sync(one.kill)
            await until(lambda: role_of(two)["role"] == "master", "the promotion")

        options = {"sentinel": {"service": "mymaster", "nodes": f"127.0.0.1:{sentinel.port}"}, "timeout_s": 2}
        events = [event(str(n), region="eu") for n in range(200)]
        await through(Kit(tmp_path), options, events, ["s.eu"], during)
        with plain(two) as client:
            await until(lambda: bool(client.exists("s.eu")), "the stream on the replica")
