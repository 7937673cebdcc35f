"""The sink `redis`: what an entry holds, what is trimmed, and what errors mean."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_dev import servers
from gateway_redis.binding import message_of
from gateway_redis.client import client
from gateway_redis.config import RedisSinkConfig
from gateway_redis.trimming import trim
from gateway_testing.suites.kit import until

from gateway_core.contract.event import Event
from gateway_core.contract.outcome import Outcome, Stage
from tests.redis.conftest import RedisKit, plain

pytestmark = pytest.mark.anyio


def event(id: str, **more: Any) -> Event:
    return Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t", **more}, id.encode())


@asynccontextmanager
async def running(kit: RedisKit, **options: Any) -> AsyncIterator[Any]:
    sink: Any = kit.sink("redis", {"url": kit.server.url, "stream": kit.stream, **options})
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        yield sink
        await sink.stop()
        tasks.cancel_scope.cancel()


async def sent(sink: Any, *events: Event, timeout_s: float = 30.0) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    for n, one in enumerate(events):
        sink.send(one, timeout_s, lambda outcome, n=n: outcomes.setdefault(n, outcome))
    await until(lambda: len(outcomes) == len(events), "the outcomes")
    return [outcomes[n] for n in range(len(events))]


def entries(kit: RedisKit, stream: str = "") -> list[dict[bytes, bytes]]:
    found: Any = kit.redis.xrange(stream or kit.stream)
    return [fields for _, fields in found]


@pytest.mark.spec("RD-02")
async def test_an_entry_has_the_fields_that_the_page_names(kit: RedisKit) -> None:
    traced = Event(
        {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "text/plain"},
        b"\x00\xff",
        key=b"k",
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=b",
    )
    async with running(kit) as sink:
        (outcome,) = await sent(sink, traced)
        assert outcome.delivered
        message = sink.preview(traced)
    assert entries(kit) == [
        {
            b"ce_specversion": b"1.0",
            b"ce_id": b"1",
            b"ce_source": b"/s",
            b"ce_type": b"t",
            b"content-type": b"text/plain",
            b"data": b"\x00\xff",
            b"key": b"k",
            b"traceparent": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            b"tracestate": b"a=b",
        }
    ]
    assert (message.url, message.key, message.body) == (f"{kit.server.url}/{kit.stream}", b"k", b"\x00\xff")


@pytest.mark.spec("RD-02")
async def test_structured_mode_is_a_content_type_and_one_field(kit: RedisKit) -> None:
    async with running(kit, codec={"cloudevents": {"mode": "structured"}}) as sink:
        await sent(sink, event("1"))
    (fields,) = entries(kit)
    assert fields.keys() == {b"content-type", b"data"}
    assert fields[b"content-type"].startswith(b"application/cloudevents+json")
    source: Any = kit.source("redis", {"url": f"{kit.server.url}/{kit.stream}"})
    (read,) = source.read(message_of([part for field in fields.items() for part in field]))
    assert (read.attributes["id"], read.data) == ("1", b"1")


@pytest.mark.spec("RD-02")
async def test_a_template_chooses_the_stream(kit: RedisKit) -> None:
    async with running(kit, stream=f"{kit.stream}.{{region}}") as sink:
        good, odd, without = await sent(sink, event("1", region="eu"), event("2", region="a b{c}"), event("3"))
        assert good.delivered
        assert odd.delivered
        assert (without.delivered, without.retry, without.stage) == (False, False, Stage.ENCODE)
        assert "region" in without.reason
    assert len(entries(kit, f"{kit.stream}.eu")) == len(entries(kit, f"{kit.stream}.a_b_c_")) == 1


@pytest.mark.spec("RD-02")
async def test_many_events_stay_in_order(kit: RedisKit) -> None:
    async with running(kit) as sink:
        outcomes = await sent(sink, *(event(str(n)) for n in range(2500)))
        assert all(outcome.delivered for outcome in outcomes)
    assert [int(fields[b"ce_id"]) for fields in entries(kit)] == list(range(2500))


@pytest.mark.spec("RD-11")
async def test_one_event_that_redis_refuses_fails_alone(kit: RedisKit) -> None:
    kit.redis.set(f"{kit.stream}.bad", "no stream")
    async with running(kit, stream=f"{kit.stream}.{{region}}") as sink:
        good, bad = await sent(sink, event("1", region="good"), event("2", region="bad"))
    assert good.delivered
    assert (bad.delivered, bad.retry) == (False, False)
    assert "WRONGTYPE" in bad.reason


@pytest.mark.spec("RD-11")
async def test_errors_of_the_server_are_retried(own_redis: servers.Server, tmp_path: Path) -> None:
    kit = RedisKit(tmp_path, own_redis)
    async with running(kit) as sink:
        assert (await sent(sink, event("0")))[0].delivered
        for name, on, off, word in [
            ("maxmemory", "1", "0", "maxmemory"),
            ("min-replicas-to-write", "1", "0", "NOREPLICAS"),
        ]:
            kit.redis.config_set(name, on)
            (outcome,) = await sent(sink, event("1"))
            assert (outcome.delivered, outcome.retry) == (False, True)
            assert word in outcome.reason
            kit.redis.config_set(name, off)
        kit.redis.execute_command("REPLICAOF", "127.0.0.1", "1")
        (outcome,) = await sent(sink, event("1"))
        assert (outcome.delivered, outcome.retry) == (False, True)
        assert "replica" in outcome.reason
        kit.redis.execute_command("REPLICAOF", "NO", "ONE")
        await anyio.to_thread.run_sync(own_redis.kill)
        (outcome,) = await sent(sink, event("1"))
        assert (outcome.delivered, outcome.retry) == (False, True)
        await anyio.to_thread.run_sync(own_redis.start)
        assert (await sent(sink, event("1")))[0].delivered


@pytest.mark.spec("RD-09")
async def test_what_counts_as_delivered_survives_a_kill(own_redis: servers.Server, tmp_path: Path) -> None:
    kit = RedisKit(tmp_path, own_redis)
    outcomes: dict[int, Outcome] = {}
    async with running(kit) as sink:
        for n in range(4000):
            sink.send(event(str(n)), 30, lambda outcome, n=n: outcomes.setdefault(n, outcome))
        await until(lambda: len(outcomes) > 500, "some to be delivered")
        await anyio.to_thread.run_sync(own_redis.kill)
        await until(lambda: len(outcomes) == 4000, "all outcomes")
    own_redis.start()
    there = {int(fields[b"ce_id"]) for fields in entries(kit)}
    assert {n for n, outcome in outcomes.items() if outcome.delivered} <= there
    assert all(outcome.delivered or outcome.retry for outcome in outcomes.values())


# -- trimming ---------------------------------------------------------------------------------------------------------


async def trimmed(kit: RedisKit) -> int:
    redis = client(RedisSinkConfig(servers=[f"127.0.0.1:{kit.server.port}"], stream="s"), "test")
    try:
        await trim(redis, kit.stream)
    finally:
        await redis.aclose()
    return len(entries(kit))


@pytest.mark.spec("RD-08")
async def test_acked_keeps_what_a_group_has_not_acknowledged(kit: RedisKit) -> None:
    async with running(kit) as sink:
        await sent(sink, *(event(str(n)) for n in range(10)))
    assert await trimmed(kit) == 10, "no group, so nobody has read it"
    for group in ("fast", "slow"):
        kit.redis.xgroup_create(kit.stream, group, "0")
    found: Any = kit.redis.xreadgroup("fast", "c", {kit.stream: ">"})
    ids = [id for id, _ in found[0][1]]
    kit.redis.xack(kit.stream, "fast", *ids)
    assert await trimmed(kit) == 10, "the slow group has read nothing"
    kit.redis.xreadgroup("slow", "c", {kit.stream: ">"}, 6)
    kit.redis.xack(kit.stream, "slow", ids[0], ids[1], ids[3])
    assert await trimmed(kit) == 8, "two at the beginning are acknowledged by both"
    kit.redis.xack(kit.stream, "slow", *ids[:6])
    assert await trimmed(kit) == 4
    kit.redis.xreadgroup("slow", "c", {kit.stream: ">"})
    kit.redis.xack(kit.stream, "slow", *ids)
    assert await trimmed(kit) == 0


@pytest.mark.spec("RD-08")
@pytest.mark.usefixtures("real_time")
async def test_a_sink_with_acked_trims_now_and_then(kit: RedisKit) -> None:
    async with running(kit, trim="acked") as sink:
        await sent(sink, event("1"), event("2"))
        kit.redis.xgroup_create(kit.stream, "g", "0")
        found: Any = kit.redis.xreadgroup("g", "c", {kit.stream: ">"}, 1)
        kit.redis.xack(kit.stream, "g", found[0][1][0][0])
        await until(lambda: len(entries(kit)) == 1, "the first to be removed")
        assert entries(kit)[0][b"ce_id"] == b"2"


@pytest.mark.spec("RD-08")
async def test_a_limit_trims_whether_it_was_read_or_not(kit: RedisKit) -> None:
    async with running(kit, trim={"maxlen": 100}) as sink:
        await sent(sink, *(event(str(n)) for n in range(1000)))
    assert 100 <= len(entries(kit)) < 400
    async with running(kit, trim={"max_age_s": 0.001}) as sink:
        await anyio.sleep(0.01)
        await sent(sink, event("last"))
    assert len(entries(kit)) < 100
    warnings = list(RedisSinkConfig.model_validate({"stream": "s", "trim": {"maxlen": 1}}).warnings())
    assert warnings
    assert "no consumer has read" in warnings[0][1]
    assert not list(RedisSinkConfig.model_validate({"stream": "s", "trim": "acked"}).warnings())


# -- replicas ---------------------------------------------------------------------------------------------------------


@contextmanager
def replica_of(server: servers.Server, folder: Path) -> Iterator[servers.Server]:
    settings = f"replicaof 127.0.0.1 {server.port}\nrepl-diskless-sync-delay 0\nrepl-diskless-load disabled"
    with servers.redis(folder, settings=settings) as replica:
        yield replica


@pytest.mark.spec("RD-16")
async def test_replicas_must_have_an_event_before_it_counts(own_redis: servers.Server, tmp_path: Path) -> None:
    kit = RedisKit(tmp_path, own_redis)
    async with running(kit, wait_replicas=1, wait_timeout_s=0.05) as sink:
        (outcome,) = await sent(sink, event("0"))
        assert (outcome.delivered, outcome.retry) == (False, True)
        assert "0 of 1 replicas" in outcome.reason
    with replica_of(own_redis, tmp_path / "replica") as replica, plain(replica) as there:
        async with running(kit, wait_replicas=1, wait_timeout_s=30) as sink:
            (outcome,) = await sent(sink, event("1"))
            assert outcome.delivered
            ids = [fields[b"ce_id"] for _, fields in there.xrange(kit.stream)]  # type: ignore[union-attr]
            assert b"1" in ids, "it counts, so the replica has it"
