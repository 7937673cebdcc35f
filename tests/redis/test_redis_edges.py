"""Limits of the config, servers in a bad state, and streams that get in the way of others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_dev import servers
from gateway_redis import trimming
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until

from gateway_core.contract.errors import StartError
from tests.redis.conftest import RedisKit
from tests.redis.test_redis_sink import entries, event, sent
from tests.redis.test_redis_sink import running as writing
from tests.redis.test_redis_source import entry, ids, pending, running

pytestmark = pytest.mark.anyio


@pytest.mark.spec("RD-09")
async def test_a_short_time_limit_does_not_end_an_idle_connection(kit: RedisKit) -> None:
    async with running(kit, timeout_s=1.0) as (source, intake):
        await anyio.sleep(2.5)  # more than twice the limit: what shows that nothing happens takes time
        assert source.info()["losses"] == 0
        kit.add(entry("1"))
        await until(lambda: ids(intake) == ["1"], "the entry")


@pytest.mark.spec("RD-11")
async def test_a_server_that_answers_something_else_is_retried(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        sink: Any = Kit(tmp_path).sink("redis", {"url": f"redis://127.0.0.1:{port}/s"})
        async with anyio.create_task_group() as tasks:
            await sink.start(tasks)
            outcomes = await sent(sink, event("1"), event("2"))
            await sink.stop()
    assert [(outcome.delivered, outcome.retry) for outcome in outcomes] == [(False, True)] * 2


@pytest.mark.spec("RD-01")
async def test_a_group_is_read_while_the_memory_is_full(own_redis: servers.Server, tmp_path: Path) -> None:
    kit = RedisKit(tmp_path, own_redis)
    kit.redis.xgroup_create(kit.stream, "g", "0", mkstream=True)
    kit.add(entry("1"))
    kit.redis.config_set("maxmemory", 1)
    async with running(kit) as (source, intake):
        await until(lambda: ids(intake) == ["1"] and pending(kit) == 0, "the entry to be acknowledged")
        assert source.info()["losses"] == 0


@pytest.mark.spec("RD-05")
async def test_a_new_stream_with_smaller_ids_is_read_from_its_beginning(kit: RedisKit) -> None:
    async with running(kit, claim_idle_s=0.3) as (source, intake):
        kit.add(entry("1"))
        await until(lambda: ids(intake) == ["1"] and pending(kit) == 0, "the first entry")
        floor = source._readers[0].group
        await until(lambda: not floor.progress.floor.startswith(b"0-"), "the next look at the group")
        with kit.redis.pipeline(transaction=True) as both:
            both.delete(kit.stream)
            both.execute_command("XADD", kit.stream, "5-1", *entry("2"))
            both.execute()
        await until(lambda: "2" in ids(intake), "the entry of the new stream")


@pytest.mark.spec("RD-08")
async def test_a_key_that_is_no_stream_stops_no_trimming(kit: RedisKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "INTERVAL_S", 0.05)
    names = [f"{kit.stream}.{n}" for n in range(8)]
    for name in names:
        kit.redis.xgroup_create(name, "g", "0", mkstream=True)
    async with writing(kit, stream=f"{kit.stream}.{{n}}", trim="acked") as sink:
        assert all(o.delivered for o in await sent(sink, *(event(str(n), n=str(n)) for n in range(8))))
        for name in names[:4]:
            kit.redis.set(name, "a string")
        kit.redis.delete(names[0])
        for name in names[4:]:
            found: Any = kit.redis.xreadgroup("g", "c", {name: ">"})
            kit.redis.xack(name, "g", *(id for id, _ in found[0][1]))
        await until(lambda: all(entries(kit, name) == [] for name in names[4:]), "all streams to be trimmed")


@pytest.mark.spec("RD-02")
async def test_an_attempt_that_is_out_of_time_fails_alone(kit: RedisKit) -> None:
    outcomes: dict[str, Any] = {}
    async with writing(kit) as sink:
        for id, timeout_s in [("late", 0.0), ("good", 30.0)]:
            sink.send(event(id), timeout_s, lambda outcome, id=id: outcomes.setdefault(id, outcome))
        await until(lambda: len(outcomes) == 2, "the outcomes")
    assert (outcomes["late"].delivered, outcomes["late"].retry, outcomes["good"].delivered) == (False, True, True)
    assert [fields[b"ce_id"] for fields in entries(kit)] == [b"good"]


@pytest.mark.spec("RD-10")
async def test_certificates_that_can_not_be_used_stop_the_start_of_a_source(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    options = {"url": "rediss://127.0.0.1:1/s", "tls": {"ca_file": str(tmp_path / "ca.pem")}}
    source: Any = Kit(tmp_path).source("redis", options)
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError, match="certificate files"):
            await source.start(None, tasks)
        tasks.cancel_scope.cancel()
