"""The source `redis`: what is pending, who gets it, and what happens to it when the group or the server goes."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import redis as redis_py
from gateway_dev import servers
from gateway_redis.group import FORGET
from gateway_testing.suites import MemoryIntake
from gateway_testing.suites.kit import until

from gateway_core.contract.errors import Overloaded
from gateway_core.contract.outcome import Stage
from tests.redis.conftest import RedisKit
from tests.redis.redis62 import Redis62
from tests.twins import twins

pytestmark = pytest.mark.anyio
GROUP = "g"


@pytest.fixture(params=twins("found", "6.2"))
def kit(request: pytest.FixtureRequest, tmp_path: Path, redis_server: servers.Server) -> Iterator[RedisKit]:
    """A kit with the server of the run, and one with Redis 6.2."""
    if request.param == "6.2":
        with Redis62(tmp_path / "redis62") as server:
            yield RedisKit(tmp_path, server)
    else:
        yield RedisKit(tmp_path, redis_server)


def entry(id: str, **more: str) -> list[bytes]:
    fields = {"ce_specversion": "1.0", "ce_id": id, "ce_source": "/s", "ce_type": "t", "data": id, **more}
    return [part.encode() for field in fields.items() for part in field]


def options(kit: RedisKit, **more: Any) -> dict[str, Any]:
    return {"url": f"{kit.server.url}/{kit.stream}", "group": GROUP, "start": "0", "consumer": "me", **more}


@asynccontextmanager
async def running(
    kit: RedisKit, *, held: bool = False, stores: bool = True, **more: Any
) -> AsyncIterator[tuple[Any, MemoryIntake]]:
    source: Any = kit.source("redis", options(kit, **more))
    intake = MemoryIntake()
    intake.hold, intake.stores = held, stores
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        yield source, intake
        intake.release()
        await source.stop()
        tasks.cancel_scope.cancel()


def ids(intake: MemoryIntake) -> list[str]:
    return [str(event.attributes["id"]) for event in intake.events]


def pending(kit: RedisKit) -> int:
    return int(kit.redis.xpending(kit.stream, GROUP)["pending"])


def read_as(kit: RedisKit, consumer: str, count: int = 100) -> int:
    """Another consumer reads, and acknowledges nothing."""
    found: Any = kit.redis.xreadgroup(GROUP, consumer, {kit.stream: ">"}, count)
    return sum(len(entries) for _, entries in found)


@pytest.mark.spec("RD-03")
async def test_what_is_pending_for_the_consumer_comes_first_after_a_restart(kit: RedisKit) -> None:
    kit.redis.xgroup_create(kit.stream, GROUP, "0", mkstream=True)
    for n in range(5):
        kit.add(entry(f"old{n}"))
    assert read_as(kit, "me-0") == 5
    kit.add(entry("new"))
    async with running(kit) as (_, intake):
        await until(lambda: len(intake.events) == 6, "all entries")
        assert ids(intake) == [*(f"old{n}" for n in range(5)), "new"]
        await until(lambda: pending(kit) == 0, "the acknowledgements")


@pytest.mark.spec("RD-03")
async def test_after_a_reconnect_what_is_in_progress_is_not_handed_over_again(
    own_redis: servers.Server, tmp_path: Path
) -> None:
    kit = RedisKit(tmp_path, own_redis)
    async with running(kit, held=True) as (source, intake):
        kit.add(entry("1"))
        await until(lambda: ids(intake) == ["1"], "the entry")
        kit.redis.client_kill_filter(_type="normal", skipme=True)
        await until(lambda: source.info()["losses"] == 1 and source.info()["error"] is None, "the reconnect")
        intake.release()
        await until(lambda: pending(kit) == 0, "the acknowledgement by the new connection")
        kit.add(entry("2"))
        await until(lambda: "2" in ids(intake), "the next entry")
        assert ids(intake) == ["1", "2"]


@pytest.mark.spec("RD-04")
async def test_entries_of_a_dead_consumer_are_taken_over(kit: RedisKit) -> None:
    kit.redis.xgroup_create(kit.stream, GROUP, "0", mkstream=True)
    for n in range(3):
        kit.add(entry(str(n)))
    assert read_as(kit, "dead") == 3
    async with running(kit, claim_idle_s=0.3) as (source, intake):
        await until(lambda: len(intake.events) == 3, "the entries of the dead consumer")
        assert ids(intake) == ["0", "1", "2"]
        await until(lambda: pending(kit) == 0, "the acknowledgements")
        facts = source.info()["streams"][kit.stream]
        assert (facts["claimed"], facts["redelivered"]) == (3, 3)


@pytest.mark.spec("RD-04")
@pytest.mark.usefixtures("real_time")
async def test_no_live_consumer_loses_what_it_has_in_progress(kit: RedisKit) -> None:
    async with (
        running(kit, held=True, consumer="slow", claim_idle_s=0.6) as (_, slow),
        running(kit, held=True, consumer="other", claim_idle_s=0.6) as (_, other),
    ):
        kit.add(entry("1"))
        await until(lambda: len(slow.events) + len(other.events) == 1, "the entry")
        await anyio.sleep(2.0)  # three times the limit: what shows that nothing happens takes time
        assert len(slow.events) + len(other.events) == 1
        (found,) = kit.redis.xpending_range(kit.stream, GROUP, "-", "+", 10)
        assert found["times_delivered"] == 1
        assert found["time_since_delivered"] < 600


@pytest.mark.spec("RD-06")
async def test_entries_that_were_deleted_while_they_were_pending_are_acknowledged(kit: RedisKit) -> None:
    kit.redis.xgroup_create(kit.stream, GROUP, "0", mkstream=True)
    mine, others = [kit.add(entry(f"m{n}")) for n in range(2)], []
    assert read_as(kit, "me-0") == 2
    others = [kit.add(entry(f"o{n}")) for n in range(2)]
    assert read_as(kit, "dead") == 2
    kit.redis.xdel(kit.stream, mine[0], others[0])
    async with running(kit, claim_idle_s=0.3) as (_, intake):
        await until(lambda: pending(kit) == 0, "all to be acknowledged or removed")
        assert sorted(ids(intake)) == ["m1", "o1"]


@pytest.mark.spec("RD-05")
async def test_a_deleted_group_is_created_again_without_a_gap(kit: RedisKit, caplog: pytest.LogCaptureFixture) -> None:
    async with running(kit, start="$", claim_idle_s=0.3) as (source, intake):
        kit.add(entry("before"))
        await until(lambda: ids(intake) == ["before"] and pending(kit) == 0, "the first entry")
        intake.hold = True
        kit.add(entry("in progress"))
        await until(lambda: len(intake.events) == 2, "the second")
        with kit.redis.pipeline(transaction=True) as both:
            both.xgroup_destroy(kit.stream, GROUP)
            both.execute_command("XADD", kit.stream, "*", *entry("meanwhile"))
            both.execute()
        await until(
            lambda: GROUP.encode() in groups(kit) and source.info()["streams"][kit.stream]["in_progress"] >= 2,
            "the new group to be read",
        )
        intake.release()
        await until(lambda: "meanwhile" in ids(intake), "the entry that came without a group")
        await until(lambda: pending(kit) == 0 and source.info()["lag"] == 0, "the acknowledgements")
        assert ids(intake).count("in progress") == 1, "in progress here, so not handed over again"
    assert [r for r in caplog.records if r.levelno == logging.ERROR and "was deleted" in r.getMessage()]


def groups(kit: RedisKit) -> list[bytes]:
    found: Any = kit.redis.xinfo_groups(kit.stream)
    return [group["name"] for group in found]


@pytest.mark.spec("RD-05")
async def test_a_deleted_stream_is_read_again_from_its_first_new_entry(kit: RedisKit) -> None:
    async with running(kit, start="$") as (_, intake):
        kit.add(entry("1"))
        await until(lambda: ids(intake) == ["1"] and pending(kit) == 0, "the first entry")
        kit.redis.delete(kit.stream)
        kit.add(entry("2"))
        await until(lambda: "2" in ids(intake), "the entry of the new stream")


@pytest.mark.spec("RD-07")
@pytest.mark.parametrize("what", ["dead_letter", "wrap", "drop"])
async def test_an_entry_that_is_not_an_event_holds_nothing_up(kit: RedisKit, what: str) -> None:
    async with running(kit, not_an_event=what) as (_, intake):
        id = kit.add([b"customer", b"1", b"raw", b"\xff\x00"])
        kit.add([b"data", b"{nonsense", b"data", b"twice"])
        kit.add(entry("1"))
        await until(lambda: "1" in ids(intake) and pending(kit) == 0, "the good entry")
        if what == "drop":
            assert (len(intake.events), len(intake.refused)) == (1, 2)
            return
        found = intake.events[0] if what == "wrap" else intake.letters[0][0]
        assert found.attributes["id"] == id.decode()
        assert found.attributes["source"] == f"redis:/{kit.stream}"
        assert found.attributes["type"] == "dev.tidegate.redis.entry"
        assert json.loads(found.data or b"") == {"customer": "1", "raw_base64": "/wA="}
        if what == "dead_letter":
            assert [letter[1].stage for letter in intake.letters] == [Stage.DECODE] * 2
            assert "more than once" in intake.letters[1][1].reason


@pytest.mark.spec("RD-07")
async def test_an_entry_that_was_handed_out_too_often_goes_to_the_dead_letter(kit: RedisKit) -> None:
    kit.redis.xgroup_create(kit.stream, GROUP, "0", mkstream=True)
    bad = kit.add(entry("bad"))
    assert read_as(kit, "dead") == 1
    kit.redis.xclaim(kit.stream, GROUP, "dead", 0, [bad])  # the second time
    kit.add(entry("good"))
    assert read_as(kit, "dead") == 1
    async with running(kit, claim_idle_s=0.3, max_deliveries=2) as (_, intake):
        await until(lambda: pending(kit) == 0, "the acknowledgements")
        assert ids(intake) == ["good"]
        ((event, outcome, _),) = intake.letters
        assert event.attributes["id"] == "bad"
        assert "handed out 2 times" in outcome.reason


@pytest.mark.spec("RD-13")
async def test_consumers_of_a_group_share_the_entries(kit: RedisKit) -> None:
    async with running(kit, consumer="a") as (_, a), running(kit, consumer="b") as (_, b):
        for n in range(200):
            kit.add(entry(str(n)))
        await until(lambda: len(a.events) + len(b.events) == 200, "all entries")
        assert sorted(map(int, [*ids(a), *ids(b)])) == list(range(200))


@pytest.mark.spec("RD-01")
async def test_no_more_than_prefetch_is_read(kit: RedisKit) -> None:
    async with running(kit, held=True, prefetch=10) as (source, intake):
        for n in range(50):
            kit.add(entry(str(n)))
        await until(lambda: pending(kit) == 10, "as much as may be in progress")
        await until(lambda: source.info()["streams"][kit.stream]["in_progress"] == 10, "all to be taken")
        intake.hold = False
        intake.release()
        await until(lambda: len(intake.events) == 50 and pending(kit) == 0, "all entries")
        assert ids(intake) == [str(n) for n in range(50)]


@pytest.mark.spec("RD-01")
async def test_few_long_entries_are_in_progress(own_redis: servers.Server, tmp_path: Path) -> None:
    kit = RedisKit(tmp_path, own_redis)
    async with running(kit, held=True) as (source, intake):
        for n in range(40):
            kit.add(entry(str(n), data="x" * 4_000_000))
        await until(lambda: source.info()["streams"][kit.stream]["in_progress"] >= 10, "some entries")
        await anyio.sleep(0.3)
        assert source.info()["streams"][kit.stream]["in_progress"] < 30
        intake.hold = False
        intake.release()
        await until(lambda: len(intake.events) == 40 and pending(kit) == 0, "all entries")


@pytest.mark.spec("RD-01")
async def test_a_bridge_without_room_gets_the_events_again(kit: RedisKit) -> None:
    async with running(kit, stores=False) as (_, intake):
        intake.result = Overloaded("full")
        kit.add(entry("1"))
        await until(lambda: len(intake.events) > 1, "the event to be offered again")
        assert pending(kit) == 1
        intake.result = None
        await until(lambda: pending(kit) == 0, "the acknowledgement")


@pytest.mark.spec("RD-14")
async def test_only_silent_consumers_that_hold_nothing_are_removed(kit: RedisKit) -> None:
    kit.redis.xgroup_create(kit.stream, GROUP, "0", mkstream=True)
    kit.add(entry("1"))
    assert read_as(kit, "tidegate-holds") == 1
    kit.redis.xgroup_createconsumer(kit.stream, GROUP, "tidegate-gone")
    kit.redis.xgroup_createconsumer(kit.stream, GROUP, "someone")
    await anyio.sleep(1.1)
    async with running(kit, forget_consumers_s=1) as (_, _intake):
        await until(lambda: "tidegate-gone" not in consumers(kit), "the silent consumer to be removed")
        assert kit.redis.execute_command("EVAL", FORGET, 1, kit.stream, GROUP, "tidegate-holds") == 0, (
            "even if it got entries just now"
        )
        assert consumers(kit) >= {"tidegate-holds", "someone"}
        assert pending(kit) == 1


def consumers(kit: RedisKit) -> set[str]:
    found: Any = kit.redis.xinfo_consumers(kit.stream, GROUP)
    return {consumer["name"].decode() for consumer in found}


@pytest.mark.spec("RD-17")
async def test_the_status_shows_the_lag(kit: RedisKit) -> None:
    for n in range(20):
        kit.add(entry(str(n)))
    async with running(kit, held=True, prefetch=10, claim_idle_s=0.3) as (source, intake):
        await until(lambda: source.info()["streams"][kit.stream]["pending"] == 10, "the state of the group")
        info = source.info()
        assert info["lag"] >= 20 if kit.server.version < "7" else info["lag"] == 20
        assert info["address"] == f"redis://127.0.0.1:{kit.server.port}/{kit.stream}"
        assert (info["group"], info["consumer"], info["error"]) == (GROUP, "me-0", None)
        intake.hold = False
        intake.release()
        await until(lambda: source.info()["lag"] == 0, "the lag to vanish")


@pytest.mark.spec("RD-09")
async def test_a_killed_server_loses_nothing(own_redis: servers.Server, tmp_path: Path) -> None:
    kit = RedisKit(tmp_path, own_redis)
    async with running(kit, claim_idle_s=0.5) as (source, intake):
        for n in range(3):
            for m in range(100):
                kit.add(entry(f"{n}-{m}"))
            await until(lambda n=n: len(intake.events) > 100 * n, "some entries")  # type: ignore[misc]
            await anyio.to_thread.run_sync(own_redis.kill)
            await until(lambda: source.info()["error"] is not None, "the loss to be seen")
            await anyio.to_thread.run_sync(own_redis.start)
        await until(lambda: len({*ids(intake)}) == 300, "all entries")
        await until(lambda: pending(kit) == 0, "the acknowledgements")


async def test_it_starts_while_the_server_is_away(own_redis: servers.Server, tmp_path: Path) -> None:
    kit = RedisKit(tmp_path, own_redis)
    kit.add(entry("1"))
    own_redis.kill()
    with anyio.fail_after(60):
        async with running(kit) as (source, intake):
            assert "refused" in source.info()["error"] or "111" in source.info()["error"]
            await anyio.to_thread.run_sync(own_redis.start)
            await until(lambda: ids(intake) == ["1"], "the entry")
    assert isinstance(kit.redis, redis_py.Redis)
