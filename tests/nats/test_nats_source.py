"""The source `nats` against real servers: what the suites do not ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import nats
import pytest
from gateway_dev import servers
from gateway_testing.link import Link
from gateway_testing.suites import MemoryIntake
from gateway_testing.suites.kit import until
from nats.js import JetStreamContext, api

from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Source
from tests.faults.proxy import Proxy
from tests.nats.conftest import NatsKit

pytestmark = pytest.mark.anyio


def ids(events: list[Event]) -> list[str]:
    return [str(event.attributes["id"]) for event in events]


def headers(id: str) -> dict[str, str]:
    return {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t"}


@asynccontextmanager
async def client(server: servers.Server) -> AsyncIterator[JetStreamContext]:
    nc = await nats.connect(server.url)
    try:
        yield nc.jetstream()
    finally:
        await nc.close()


@asynccontextmanager
async def running(source: Any, intake: MemoryIntake, *, connected: bool = True) -> AsyncIterator[Any]:
    """`connected`: waits until it subscribes or has its consumer. On a busy machine, `start` returns before."""
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        if connected:
            await until(lambda: source.info()["error"] is None, "the source to be connected")
        yield source
        await source.stop()
        tasks.cancel_scope.cancel()


def source_of(kit: NatsKit, **options: Any) -> Any:
    stream = {"stream": kit.name, "create": {"subjects": f"{kit.name}.>", "storage": "memory"}}
    given = {"servers": kit.server.url, "subject": f"{kit.name}.>", "consumer": "its", "start": "earliest"}
    return kit.source("nats", {**stream, **given, **options})


async def publish(js: JetStreamContext, subject: str, *names: str) -> None:
    for name in names:
        await js.publish(subject, b"data", headers=headers(name))


async def left(js: JetStreamContext, kit: NatsKit) -> tuple[int | None, int | None]:
    """How many messages of the consumer are not acknowledged, and how many it has not sent."""
    info = await js.consumer_info(kit.name, "its")
    return info.num_ack_pending, info.num_pending


async def acknowledged(js: JetStreamContext, kit: NatsKit) -> None:
    """The server has all acknowledgements; the source has settled its events before that."""
    with anyio.fail_after(10):
        while await left(js, kit) != (0, 0):  # noqa: ASYNC110 - the server says it only when asked
            await anyio.sleep(0.01)


async def refused(source: Source) -> str:
    """The fault with which the source does not start."""
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError, match=r"test\.source: ") as fault:
            await source.start(MemoryIntake(), tasks)
        await source.stop()
    return str(fault.value)


@pytest.mark.spec("NT-05")
@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.full)])
async def test_a_server_that_is_killed_loses_nothing(tmp_path: Any, own_nats: servers.Server, times: int) -> None:
    kit, intake = NatsKit(tmp_path, own_nats), MemoryIntake()
    create = {"subjects": f"{kit.name}.>", "storage": "file"}
    sent: list[str] = []
    async with running(source_of(kit, create=create, ack_wait_s=2), intake):
        for round in range(times):
            async with client(own_nats) as js:
                for n in range(50):
                    await publish(js, f"{kit.name}.in", f"{round}-{n}")
                    sent.append(f"{round}-{n}")
            await anyio.to_thread.run_sync(own_nats.kill)
            await anyio.to_thread.run_sync(own_nats.start)
        await until(lambda: set(ids(intake.safe)) >= set(sent), "all that was published")
    first = list(dict.fromkeys(ids(intake.safe)))
    assert first == sent, "in order, but for repeats"


@pytest.mark.spec("NT-06")
@pytest.mark.usefixtures("real_time")
async def test_what_waits_for_long_is_in_progress(kit: NatsKit) -> None:
    intake = MemoryIntake()
    intake.hold = True
    async with client(kit.server) as js, running(source_of(kit, ack_wait_s=1), intake) as source:
        await publish(js, f"{kit.name}.in", "1", "2")
        await until(lambda: len(intake.events) > 0, "an event")
        await anyio.sleep(2.5)
        info = await js.consumer_info(kit.name, "its")
        assert (info.num_ack_pending, info.num_redelivered, source.info()["redelivered"]) == (2, 0, 0)
        assert source.info()["lag"] == 2
        intake.release()
        await until(lambda: source.info()["lag"] == 0, "both to be acknowledged")


@pytest.mark.spec("NT-01")
async def test_after_a_stop_others_get_the_rest_at_once(kit: NatsKit) -> None:
    first, second = MemoryIntake(), MemoryIntake()
    first.hold = True
    async with client(kit.server) as js:
        async with running(source_of(kit, ack_wait_s=600), first):
            await publish(js, f"{kit.name}.in", "1", "2", "3")
            await until(lambda: len(first.events) == 1, "the first event")
            first.result = StartError("it can't be stored")
            first.release()
        async with running(source_of(kit, ack_wait_s=600), second):
            await until(lambda: ids(second.safe) == ["1", "2", "3"], "what the first one gave back")


@pytest.mark.spec("NT-12")
async def test_a_deleted_consumer_goes_on_where_it_was(kit: NatsKit) -> None:
    intake = MemoryIntake()
    async with client(kit.server) as js, running(source_of(kit, start="latest"), intake) as source:
        await publish(js, f"{kit.name}.in", "1", "2")
        await until(lambda: ids(intake.safe) == ["1", "2"], "two events")
        await until(lambda: source.info()["lag"] == 0, "their acknowledgement")
        await js.delete_consumer(kit.name, "its")
        await publish(js, f"{kit.name}.in", "3")
        await until(lambda: "3" in ids(intake.safe), "what came while there was no consumer")
        assert ids(intake.safe) == ["1", "2", "3"]


@pytest.mark.spec("NT-12")
@pytest.mark.usefixtures("real_time")
async def test_a_consumer_deleted_after_a_crash_goes_on_at_what_is_acknowledged(kit: NatsKit) -> None:
    """What was in flight at the crash has not been redelivered yet, and what came since waits for it."""
    before, after = MemoryIntake(), MemoryIntake()
    async with client(kit.server) as js:
        with Link("127.0.0.1", kit.server.port) as link:
            crashing = source_of(kit, servers=f"nats://127.0.0.1:{link.port}", ack_wait_s=30)
            async with running(crashing, before):
                await publish(js, f"{kit.name}.in", "1", "2")
                await until(lambda: ids(before.safe) == ["1", "2"], "two events")
                await acknowledged(js, kit)
                before.hold = True
                await publish(js, f"{kit.name}.in", "3", "4", "5")
                await until(lambda: crashing.info()["lag"] == 3, "three events in flight")
                link.cut()  # it can give nothing back
        async with running(source_of(kit, ack_wait_s=30), after) as source:
            await publish(js, f"{kit.name}.in", "6", "7")
            await until(lambda: source.info()["lag"] >= 2, "what waits behind those in flight")
            await js.delete_consumer(kit.name, "its")
            await until(lambda: len(after.safe) >= 5, "everything that was not acknowledged")
        assert ids(after.safe) == ["3", "4", "5", "6", "7"]


@pytest.mark.spec("NT-12")
async def test_a_deleted_consumer_that_read_nothing_yet_starts_where_it_did(kit: NatsKit) -> None:
    """Not with all that is older."""
    intake = MemoryIntake()
    async with client(kit.server) as js:
        await js.add_stream(name=kit.name, subjects=[f"{kit.name}.>"], storage="memory")
        await publish(js, f"{kit.name}.in", "old", "older")
        async with running(source_of(kit, start="latest", create=None), intake) as source:
            await js.delete_consumer(kit.name, "its")
            await publish(js, f"{kit.name}.in", "1")
            await until(lambda: ids(intake.safe)[-1:] == ["1"], "what came while there was no consumer")
            assert source.info()["reconnects"] == 1
        assert ids(intake.safe) == ["1"]


@pytest.mark.spec("NT-12")
async def test_a_deleted_consumer_repeats_nothing_of_many(kit: NatsKit) -> None:
    """What was acknowledged since the last look at the consumer is redelivered, and goes no further."""
    intake = MemoryIntake()
    names = [str(n) for n in range(300)]
    async with client(kit.server) as js, running(source_of(kit), intake):
        await publish(js, f"{kit.name}.in", *names)
        await until(lambda: ids(intake.safe) == names, "all events")
        await js.delete_consumer(kit.name, "its")
        await publish(js, f"{kit.name}.in", "last")
        await until(lambda: "last" in ids(intake.safe), "what came while there was no consumer")
        await acknowledged(js, kit)
    assert ids(intake.safe) == [*names, "last"]


@pytest.mark.spec("NT-17")
async def test_messages_now_and_then_are_a_sign_of_life(kit: NatsKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sends no heartbeat while it sends messages."""
    monkeypatch.setattr("gateway_nats.pull.SILENT_S", 0.4)
    monkeypatch.setattr("gateway_nats.pull.WATCH_S", 0.1)
    intake = MemoryIntake()
    async with client(kit.server) as js, running(source_of(kit), intake) as source:
        for n in range(24):
            await publish(js, f"{kit.name}.in", str(n))
            await anyio.sleep(0.05)
        await until(lambda: len(intake.safe) == 24, "all events")
        assert source.info()["reconnects"] == 0


@pytest.mark.spec("NT-17")
async def test_a_slow_connection_on_which_messages_come_is_alive(kit: NatsKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers to its pings wait behind them."""
    monkeypatch.setattr("gateway_nats.connect.PING_S", 0.7)
    intake = MemoryIntake()
    with Proxy(kit.server.port) as proxy:
        async with (
            client(kit.server) as js,
            running(source_of(kit, servers=f"nats://127.0.0.1:{proxy.port}"), intake) as source,
        ):
            proxy.slow(60_000)
            for n in range(250):
                await js.publish(f"{kit.name}.in", b"x" * 1000, headers=headers(str(n)))
            await until(lambda: len(intake.safe) == 250, "all events")
            assert source.info()["reconnects"] == 0


@pytest.mark.spec("NT-12")
async def test_a_new_stream_is_not_taken_for_the_old_one(kit: NatsKit) -> None:
    """Its messages have the same numbers as those that were acknowledged."""
    intake = MemoryIntake()
    async with client(kit.server) as js, running(source_of(kit), intake):
        await publish(js, f"{kit.name}.in", "1", "2")
        await until(lambda: ids(intake.safe) == ["1", "2"], "two events")
        await js.delete_stream(kit.name)
        await js.add_stream(name=kit.name, subjects=[f"{kit.name}.>"], storage=api.StorageType.MEMORY, discard="new")
        await publish(js, f"{kit.name}.in", "3", "4")
        await until(lambda: ids(intake.safe)[2:] == ["3", "4"], "those of the new stream")


@pytest.mark.spec("NT-10")
async def test_what_is_not_an_event_goes_to_the_dead_letter_or_is_wrapped(kit: NatsKit) -> None:
    intake, wrapping = MemoryIntake(), MemoryIntake()
    async with client(kit.server) as js:
        async with running(source_of(kit, key_token=2), intake) as source:
            await js.publish(f"{kit.name}.red", b"{nonsense", headers={"Foo": "bar", "ce-specversion": "9"})
            await publish(js, f"{kit.name}.blue", "1")
            await until(lambda: ids(intake.safe) == ["1"] and len(intake.buried) == 1, "both")
            await until(lambda: source.info()["lag"] == 0, "both to be acknowledged")
        assert intake.safe[0].key == b"blue"
        ((event, outcome, _),) = intake.letters
        assert outcome.stage == "decode"
        assert (event.data, event.key) == (b"{nonsense", b"red")
        assert event.attributes["source"] == f"nats:/{kit.name}/{kit.name}.red"
        assert (event.attributes["id"], event.attributes["natsheaderfoo"]) == ("1", "bar")
        async with running(source_of(kit, consumer="two", not_an_event="wrap", wrap_type="raw"), wrapping):
            await until(lambda: len(wrapping.safe) == 2, "both")
        assert [event.attributes["type"] for event in wrapping.safe] == ["raw", "t"]


@pytest.mark.spec("NT-10")
async def test_what_was_delivered_too_often_goes_to_the_dead_letter(kit: NatsKit) -> None:
    async with client(kit.server) as js:
        for attempt in range(3):
            intake = MemoryIntake()
            intake.hold = attempt < 2
            async with running(source_of(kit, max_deliveries=2), intake):
                if attempt == 0:
                    await publish(js, f"{kit.name}.in", "poison")
                await until(lambda: len(intake.events) + len(intake.letters) == 1, "it to come")  # noqa: B023
                intake.result = StartError("this gateway dies of it")
                intake.release()
                intake.result = None
                if attempt < 2:
                    continue
        assert (ids(intake.buried), intake.events) == (["poison"], [])
        assert "delivered 2 times" in intake.letters[0][1].reason


@pytest.mark.spec("NT-08")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"create": {"subjects": "other.{name}", "storage": "memory"}}, "`subjects` is {name}.> and not other.{name}"),
        ({"create": {"subjects": "{name}.>", "storage": "file"}}, "`storage` is memory and not file"),
        ({"create": {"subjects": "{name}.>", "storage": "memory", "max_bytes": 4096}}, "`max_bytes` is unlimited"),
        ({"subject": "{name}.other"}, "consumer its of the stream {name} is not as configured: `subject` is {name}.>"),
        ({"ack_wait_s": 7}, "`ack_wait_s` is 30 and not 7"),
        ({"consumer": "pushed"}, "push consumer"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
async def test_a_difference_is_a_fault_and_nothing_is_altered(kit: NatsKit, options: Any, says: str) -> None:
    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(inner) for key, inner in value.items()}
        return value.replace("{name}", kit.name) if isinstance(value, str) else value

    async with client(kit.server) as js, running(source_of(kit), MemoryIntake()):
        await js.add_consumer(kit.name, durable_name="pushed", deliver_subject=f"{kit.name}-push")
        before = (await js.stream_info(kit.name)).config, (await js.consumer_info(kit.name, "its")).config
        assert named(says) in await refused(source_of(kit, **named(options)))
        assert ((await js.stream_info(kit.name)).config, (await js.consumer_info(kit.name, "its")).config) == before


async def test_it_waits_for_a_stream_that_does_not_exist_yet(kit: NatsKit) -> None:
    intake = MemoryIntake()
    async with client(kit.server) as js:
        source: Any = kit.source("nats", {"servers": kit.server.url, "subject": f"{kit.name}.in", "start": "earliest"})
        async with running(source, intake, connected=False):
            await until(lambda: f"no stream has the subject {kit.name}.in" in source.info()["error"], "what it lacks")
            await js.add_stream(name=kit.name, subjects=[f"{kit.name}.in"], storage=api.StorageType.MEMORY)
            await publish(js, f"{kit.name}.in", "1")
            await until(lambda: ids(intake.safe) == ["1"], "the event")


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ("earliest", ["1", "2", "3"]),
        ({"sequence": 2}, ["2", "3"]),
        ({"timestamp": "2026-01-01T00:00:00Z"}, ["1", "2", "3"]),
    ],
)
async def test_a_new_consumer_starts_where_the_config_says(kit: NatsKit, start: Any, wanted: list[str]) -> None:
    intake = MemoryIntake()
    async with client(kit.server) as js:
        await js.add_stream(name=kit.name, subjects=[f"{kit.name}.>"], storage=api.StorageType.MEMORY, discard="new")
        await publish(js, f"{kit.name}.in", "1", "2", "3")
        async with running(source_of(kit, start=start), intake):
            await until(lambda: ids(intake.safe) == wanted, f"{wanted}")


@pytest.mark.spec("NT-11")
async def test_core_nats_counts_what_finds_no_room(kit: NatsKit) -> None:
    intake = MemoryIntake()
    intake.hold = True
    options = {"servers": kit.server.url, "subject": f"{kit.name}.*", "jetstream": False, "max_in_flight": 2}
    source: Any = kit.source("nats", options)
    nc = await nats.connect(kit.server.url)
    async with running(source, intake):
        for name in ("1", "2", "3"):
            await nc.publish(f"{kit.name}.in", b"", headers=headers(name))
        await until(lambda: source.info()["dropped"] == 1, "one to be dropped")
        intake.release()
        await until(lambda: ids(intake.safe) == ["1", "2"], "the others")
        await nc.publish(f"{kit.name}.in", b"", headers=headers("4"))
        await until(lambda: ids(intake.safe) == ["1", "2", "4"], "one more")
    await nc.close()


async def test_a_dropped_message_is_ended_and_the_server_reports_it(kit: NatsKit) -> None:
    nc = await nats.connect(kit.server.url)
    told = await nc.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{kit.name}.>")
    try:
        async with client(kit.server) as js, running(source_of(kit, not_an_event="drop"), MemoryIntake()):
            await js.publish(f"{kit.name}.a", b"no event")
            assert b'"stream_seq":1' in (await told.next_msg(30)).data
    finally:
        await nc.close()
