"""Messages in every shape: the names of headers, what is not an event, back-pressure, workers."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import aio_pika
import anyio
import anyio.lowlevel
import pytest
from gateway_dev.rabbitmq import RabbitMq
from gateway_rabbitmq.config import RabbitSinkConfig
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import Attempts, attempt, running

from gateway_core.contract.event import Event, Message
from tests.rabbit_lab import Lab, message_of, numbered, proxied
from tests.rabbitmq.test_rabbit_faults import ids, info, reading, thread

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


def options(server: RabbitMq, name: str, **more: Any) -> dict[str, Any]:
    return {"server": f"127.0.0.1:{server.port}", "queue": name, **more}


NATIVE = {"count": 7, "ok": True, "time": datetime.datetime(2026, 1, 31, 8, tzinfo=datetime.UTC), "none": None}
BASE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@pytest.mark.spec("RQ-03", "RQ-04")
@pytest.mark.parametrize("prefix", ["cloudEvents_", "cloudEvents:", "ce-", ""])
async def test_all_spellings_of_headers_are_read(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str, prefix: str
) -> None:
    headers: dict[str, Any] = {f"{prefix}{n}": value for n, value in [*BASE.items(), *NATIVE.items()]}
    others: dict[str, Any] = {
        "x-death": [{"count": 1, "queue": "q"}],
        "x-id": "x",
        "Not-An-Attribute": "1",
        "traceparent": "junk",
    }
    message = aio_pika.Message(b"{}", headers={**headers, **others}, content_type="application/json")
    async with reading(kit.source("rabbitmq", options(own_rabbitmq, name))) as intake:
        await thread(lab.publish, name, message)
        await until(lambda: len(intake.events) == 1, "the event")
    expected = {
        **BASE,
        "count": "7",
        "ok": "true",
        "time": "2026-01-31T08:00:00Z",
        "datacontenttype": "application/json",
    }
    assert intake.events[0].attributes == expected
    assert intake.events[0].data == b"{}"


@pytest.mark.spec("RQ-03")
async def test_of_two_spellings_in_one_message_one_counts(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str
) -> None:
    headers: dict[str, Any] = {f"cloudEvents_{n}": v for n, v in BASE.items()} | {
        "ce-id": "other",
        "id": "third",
        "specversion": "0.3",
    }
    async with reading(kit.source("rabbitmq", options(own_rabbitmq, name))) as intake:
        await thread(lab.publish, name, aio_pika.Message(b"", headers=headers))
        await until(lambda: len(intake.events) == 1, "the event")
    assert intake.events[0].attributes == BASE


@pytest.mark.spec("RQ-03")
def test_what_is_written(kit: Kit) -> None:
    event = Event({**BASE, "datacontenttype": "text/plain", "n": 5}, b"hi", key=b"k1")
    sink: Any = kit.sink("rabbitmq", {"exchange": "e", "routing_key": "{type}.{source}"})
    message: Message = sink.preview(event)
    assert dict(message.headers) == {
        b"cloudEvents_specversion": b"1.0",
        b"cloudEvents_id": b"1",
        b"cloudEvents_source": b"/s",
        b"cloudEvents_type": b"t",
        b"cloudEvents_n": b"5",
        b"content-type": b"text/plain",
    }
    assert (message.body, message.key) == (b"hi", b"t./s")
    assert message.url == "amqp://127.0.0.1:5672?exchange=e&routing_key=t.%2Fs"
    knative: Any = kit.sink("rabbitmq", {"exchange": "e", "headers": "knative", "key": "record"})
    message = knative.preview(event)
    assert (b"ce-id", b"1") in message.headers
    assert message.key == b"k1"


def test_a_message_of_a_test_is_read_like_one_of_the_server(kit: Kit) -> None:
    source: Any = kit.source("rabbitmq", {"queue": "q", "key": "routing_key"})
    headers = [(f"ce-{n}".encode(), v.encode()) for n, v in BASE.items()]
    (event,) = source.read(Message([*headers, (b"content-type", b"text/plain")], b"x", b"rk"))
    assert event == Event({**BASE, "datacontenttype": "text/plain"}, b"x", key=b"rk")


@pytest.mark.spec("RQ-05")
async def test_at_prefetch_the_server_sends_no_more(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    source = kit.source("rabbitmq", options(own_rabbitmq, name, prefetch=5))
    async with reading(source) as intake:
        intake.hold = True
        await thread(lab.publish, name, *(message_of(numbered(n)) for n in range(20)))
        await until(lambda: info(source)["unacknowledged"] == 5, "a full window")
        await until(lambda: lab.ready(name) == 15, "the others to wait in the queue")
        assert info(source)["unacknowledged"] == 5
        intake.release()
        await until(lambda: len(set(ids(intake))) == 20, "all events")
    assert lab.ready(name) == 0


@pytest.mark.spec("RQ-10")
@pytest.mark.parametrize("what", ["dead_letter", "wrap", "drop", "reject"])
async def test_what_is_not_an_event_holds_up_nothing(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str, what: str
) -> None:
    lab.queue(f"{name}-dead")
    more = {"dead_letter_exchange": "", "dead_letter_routing_key": f"{name}-dead", "not_an_event": what}
    source = kit.source("rabbitmq", options(own_rabbitmq, name, **more))
    poison = aio_pika.Message(
        b"\xff?", headers={"a-b": "c"}, content_type="text/csv", message_id="m1", timestamp=1700000000
    )
    event = message_of(numbered(1))
    async with reading(source) as intake:
        await thread(lab.publish, name, poison, event)
        await until(lambda: "n1" in ids(intake), "the event behind")
        await until(lambda: info(source)["unacknowledged"] == 0, "the end of all")
    expected = {
        "specversion": "1.0",
        "id": "m1",
        "source": f"rabbitmq:/{name}",
        "type": "dev.tidegate.rabbitmq.message",
        "time": "2023-11-14T22:13:20.000Z",
        "datacontenttype": "text/csv",
        "rabbitmqheaderab": "c",
        "rabbitmqheadermessageid": "m1",
        "rabbitmqheaderpriority": "0",  # aio-pika's
        "rabbitmqheaderexchange": "",
        "rabbitmqheaderroutingkey": name,
    }
    wrapped = [e for e, _, _ in intake.letters] + [e for e in intake.events if e.attributes["id"] == "m1"]
    if what in ("dead_letter", "wrap"):
        assert [(e.attributes, e.data) for e in wrapped] == [(expected, b"\xff?")]
        assert intake.refused == []
    else:
        assert wrapped == []
        assert len(intake.refused) == 1
    dead = lab.take(f"{name}-dead")
    assert [m.body for m in dead] == ([b"\xff?"] if what == "reject" else [])
    assert lab.ready(name) == 0


@pytest.mark.spec("RQ-04", "RQ-10")
async def test_a_queue_of_dead_letters_can_be_read(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    """A message that RabbitMQ moved: its `x-death` is no attribute."""
    lab.queue(f"{name}-first", "classic", message_ttl=1, dead_letter_exchange="", dead_letter_routing_key=name)
    event = numbered(1)
    async with reading(kit.source("rabbitmq", options(own_rabbitmq, name))) as intake:
        await thread(lab.publish, f"{name}-first", message_of(event))
        await until(lambda: len(intake.events) == 1, "the event")
    assert intake.events == [event]


@pytest.mark.spec("RQ-11")
async def test_two_sources_share_a_queue(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    given = options(own_rabbitmq, name, prefetch=10)
    one, two = kit.source("rabbitmq", given), kit.source("rabbitmq", given)
    async with reading(one) as first, reading(two) as second:
        await thread(lab.publish, name, *(message_of(numbered(n)) for n in range(200)))
        await until(lambda: len(first.events) + len(second.events) == 200, "all events")
        assert first.events
        assert second.events
        assert set(ids(first)) | set(ids(second)) == {f"n{n}" for n in range(200)}


@pytest.mark.spec("RQ-11")
async def test_of_single_active_consumers_another_takes_over(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str
) -> None:
    given = options(own_rabbitmq, name, single_active_consumer=True)
    one, two = kit.source("rabbitmq", given), kit.source("rabbitmq", given)
    async with reading(two) as second_intake, reading(one) as first_intake:
        await thread(lab.publish, name, *(message_of(numbered(n)) for n in range(50)))
        await until(lambda: len(second_intake.events) == 50, "all events, at one consumer")
        assert first_intake.events == []
        await two.stop()
        await thread(lab.publish, name, message_of(numbered(50)))
        await until(lambda: ids(first_intake) == ["n50"], "the other consumer to take over")


@pytest.mark.spec("RQ-01")
async def test_large_and_empty_bodies(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    """Bodies of several frames, in both directions, and the limits of a frame."""
    sizes = (0, 1, 131_063, 131_064, 131_065, 400_000)
    source = kit.source("rabbitmq", options(own_rabbitmq, name))
    sink = kit.sink("rabbitmq", options(own_rabbitmq, name))
    async with reading(source) as intake, running(sink):
        attempts = Attempts()
        for n, size in enumerate(sizes):
            event = numbered(n)
            event.data = bytes(size)
            attempts.send(sink, event)
        assert all(o.delivered for o in await attempts.ended())
        await until(lambda: len(intake.events) == len(sizes), "all events")
        assert [len(e.data or b"") for e in intake.events] == list(sizes)


@pytest.mark.spec("RQ-02")
async def test_an_event_that_no_frame_can_hold_is_refused(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str
) -> None:
    lab.queue(name)
    from gateway_testing.suites.sink import running

    sink = kit.sink("rabbitmq", options(own_rabbitmq, name, max_message_bytes=1024))
    async with running(sink):
        for event, said in (
            (numbered(1, big="x" * 200_000), "use structured mode"),
            (numbered(2, datacontenttype="text/" + "x" * 300), "can't carry a content type"),
            (Event({**numbered(3).attributes}, b"x" * 2000), "max_message_bytes"),
        ):
            outcome = await attempt(sink, event)
            assert (outcome.delivered, outcome.retry) == (False, False)
            assert said in outcome.reason
        assert (await attempt(sink, numbered(4))).delivered


@pytest.mark.spec("RQ-06")
async def test_a_silent_server_is_given_up(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    """Nothing comes through a connection that is still there: heartbeats show it."""
    with proxied(own_rabbitmq.port) as proxy:
        given = {**options(own_rabbitmq, name), "server": f"127.0.0.1:{proxy.port}", "heartbeat_s": 1}
        source = kit.source("rabbitmq", given)
        async with reading(source) as intake:
            await thread(lab.publish, name, message_of(numbered(1)))
            await until(lambda: ids(intake) == ["n1"], "the first event")
            proxy.stall()
            await until(lambda: info(source)["connections_lost"] == 1, "the heartbeat to be missed")
            proxy.cut()
            proxy.flow()
            await thread(lab.publish, name, message_of(numbered(2)))
            await until(lambda: "n2" in ids(intake), "the next one")
            await anyio.lowlevel.checkpoint()


@pytest.mark.spec("RQ-03")
def test_the_trace_travels_in_headers_of_its_own(kit: Kit) -> None:
    sink: Any = kit.sink("rabbitmq", {"queue": "q"})
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message: Message = sink.preview(Event(BASE).with_trace(trace))
    assert (b"traceparent", trace.encode()) in message.headers


def test_a_url_does_as_well(kit: Kit) -> None:
    sink = kit.sink("rabbitmq", {"url": "amqps://rabbit-1,rabbit-2:5673/shop%2Feu?exchange=orders&routing_key={type}"})
    assert sink.address == "amqps://rabbit-1,rabbit-2:5673/shop/eu?exchange=orders"
    for url, said in (
        ("amqp://me:secret@h/?queue=q", "must have no user and password"),
        ("amqp://h/a/b?queue=q", "must be amqp://HOST:PORT/VHOST"),
        ("amqp://h/", "set `exchange` or `queue`"),
        ("amqp://h/?queue=q&exchange=e", "can't be combined"),
    ):
        with pytest.raises(ValueError, match=said) as found:
            RabbitSinkConfig.model_validate({"url": url})
        assert "secret" not in str(found.value.errors(include_input=False))  # type: ignore[attr-defined]
