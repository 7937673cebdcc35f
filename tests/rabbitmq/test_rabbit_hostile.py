"""Bytes and moments that no ordinary client or server produces."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aio_pika
import anyio
import pytest
from gateway_dev.rabbitmq import RabbitMq
from gateway_rabbitmq import wire
from gateway_rabbitmq.config import RabbitSinkConfig, RabbitSourceConfig
from gateway_rabbitmq.link import Link
from gateway_rabbitmq.publisher import Publisher
from gateway_rabbitmq.wire import Content
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import Attempts, attempt, running

from gateway_core.contract.interfaces import Outcome
from tests.rabbit_lab import Lab, message_of, numbered
from tests.rabbitmq.test_rabbit_faults import ids, info, reading, thread

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


# -- from those who publish --------------------------------------------------------------------------------------


def _header(table: bytes) -> bytes:
    return struct.pack(">HHQH", 60, 0, 0, 1 << 13) + struct.pack(">I", len(table)) + table


def _array(value: bytes) -> bytes:
    return b"A" + struct.pack(">I", len(value)) + value


def _nested(depth: int) -> bytes:
    value = b"V"
    for _ in range(depth):
        value = _array(value)
    return value


@pytest.mark.spec("RQ-04")
@pytest.mark.parametrize(
    "value",
    [_nested(33), _nested(20_000), b"A\xff\xff\xff\xff", b"F\x00\x00\x00\x02\x09a", _array(b"I\x00"), b"?", b"d\x00"],
    ids=["33", "20000", "size", "name", "short", "type", "double"],
)
def test_headers_that_nobody_can_read_are_a_fault_of_the_message(value: bytes) -> None:
    content = Content()
    wire.read_header(_header(b"\x01a" + value), content)
    assert content.fault.startswith("its properties are damaged: ")


@pytest.mark.spec("RQ-04")
def test_tables_in_tables_are_read() -> None:
    table = b"\x01kS\x00\x00\x00\x01v\x01tT" + struct.pack(">Q", 0) + b"\x01nV"
    value = _array(
        b"F" + struct.pack(">I", len(table)) + table + b"t\x01" + b"I\x00\x00\x00\x07" + b"S\x00\x00\x00\x01s"
    )
    content = Content()
    wire.read_header(_header(b"\x01a" + value + b"\x01bD\x02\x00\x00\x00\x7b"), content)
    assert content.fault == ""
    assert content.headers[b"a"] == [{"k": "v", "t": "1970-01-01T00:00:00Z", "n": None}, True, 7, "s"]
    assert str(content.headers[b"b"]) == "1.23"


@pytest.mark.spec("RQ-04")
def test_a_routing_key_that_is_not_utf_8_is_read() -> None:
    """A queue's `x-dead-letter-routing-key` may have any bytes."""
    payload = b"\x00\x3c\x00\x3c" + b"\x01t" + struct.pack(">Q", 5) + b"\x00" + b"\x01e" + b"\x02a\xff"
    assert wire.delivery(payload) == (5, False, "e", "a\ufffd")


@pytest.mark.spec("RQ-04")
async def test_a_deeply_nested_header_holds_up_nothing(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    bad = aio_pika.Message(b"x", headers={"a": deep}, message_id="a\nb")
    options = {"server": f"127.0.0.1:{own_rabbitmq.port}", "queue": name, "not_an_event": "wrap"}
    source = kit.source("rabbitmq", options)
    async with reading(source) as intake:
        await thread(lab.publish, name, bad, message_of(numbered(1)))
        await until(lambda: "n1" in ids(intake), "the event behind it")
        assert info(source)["connections_lost"] == 0
        assert [e.data for e in intake.events][:1] == [b"x"]
        assert all(id.isprintable() for id in ids(intake))


# -- from the server ---------------------------------------------------------------------------------------------


class _Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.aborted

    def write(self, data: Any) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.slow
@pytest.mark.spec("RQ-06")
@pytest.mark.filterwarnings("ignore:This command is deprecated")
async def test_any_bytes_of_a_server_end_the_connection_in_order() -> None:
    """Each method of the class basic, connection, channel and queue, with a payload that is cut or makes no sense."""
    for cls in (10, 20, 50, 60, 85):
        for method in range(125):
            for rest in (b"", b"\xff", b"\xff" * 40, b"\x00" * 3, b"\x01\xff" * 20):
                payload = struct.pack(">HH", cls, method) + rest
                for number in (0, 1):
                    link = Link()
                    link.connection_made(_Wire())
                    link._steps = None
                    with anyio.move_on_after(0):
                        await link.channel()
                    frame = wire.FRAME.pack(wire.METHOD, number, len(payload)) + payload + b"\xce"
                    for byte in frame:
                        link.data_received(bytes((byte,)))  # must not raise


# -- the sink ----------------------------------------------------------------------------------------------------


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, call: Callable[[], None], *args: Any) -> Any:
        self.timers.append(call)
        return call


@pytest.mark.spec("RQ-09")
async def test_an_attempt_made_as_another_times_out_adds_no_timer() -> None:
    clock: Any = _Clock()
    publisher = Publisher(RabbitSinkConfig(queue="q"), clock, lambda: "away")

    def again(outcome: Outcome | None = None) -> None:
        publisher.send(publisher.attempt("q", b"", [], b"", "1"), 1, again)

    again()
    for _ in range(20):
        clock.now += 2
        due, clock.timers = clock.timers, []
        for call in due:
            call()
        assert len(clock.timers) == 1


@pytest.mark.spec("RQ-08")
async def test_a_returned_message_is_told_from_others_with_its_headers() -> None:
    """Structured mode: all of the event is in the body."""
    clock: Any = _Clock()
    publisher = Publisher(RabbitSinkConfig(exchange="e"), clock, lambda: None)
    link = Link()
    link.connection_made(_Wire())
    channel: Any = type("Fake", (), {"number": 1})()
    publisher.begin(link, channel)
    outcomes: dict[int, Outcome] = {}
    for number in range(3):
        attempt = publisher.attempt("k", b"", [], b"%d" % number, "")
        publisher.send(attempt, 10, lambda o, n=number: outcomes.update({n: o}))  # type: ignore[misc]
    channel.returned(312, "NO_ROUTE", Content(b"1", routing_key="k"))
    channel.confirmed(3, True, True)
    assert {n: o.delivered for n, o in outcomes.items()} == {0: True, 1: False, 2: True}


@pytest.mark.spec("RQ-07")
def test_check_connect_tries_all_servers(own_rabbitmq: RabbitMq) -> None:
    servers = ["127.0.0.1:1", f"127.0.0.1:{own_rabbitmq.port}"]
    RabbitSourceConfig(server=servers, queue="q").connect(10)
    with pytest.raises(OSError, match="refuses the credentials"):
        RabbitSourceConfig(server=servers, queue="q", password="wr0ng").connect(10)


@pytest.mark.spec("RQ-09")
async def test_a_message_larger_than_the_server_takes_cuts_the_connection_once(
    own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str
) -> None:
    def set_most(size: int) -> None:
        # RabbitMQ 3 asks its settings, RabbitMQ 4 what it kept of them at its start
        kept = f"persistent_term:put(max_message_size, {size})"
        own_rabbitmq.evaluate(f"application:set_env(rabbit, max_message_size, {size}), {kept}.")

    lab.queue(name)
    await thread(set_most, 5000)
    try:
        sink: Any = kit.sink("rabbitmq", {"server": f"127.0.0.1:{own_rabbitmq.port}", "queue": name})
        async with running(sink):
            large = numbered(1)
            large.data = b"x" * 6000
            first = await attempt(sink, large, 30)
            assert (first.delivered, first.retry) == (False, True)
            assert "larger than" in first.reason
            again = await attempt(sink, large, 30)
            assert (again.delivered, again.retry) == (False, False)
            assert "6000 bytes, the limit is 5000" in again.reason
            assert (await attempt(sink, numbered(2), 30)).delivered
            assert list(sink.metrics().values()) == [1]
    finally:
        await thread(set_most, 128 * 1024 * 1024)


@pytest.mark.spec("RQ-09")
async def test_a_forbidden_topic_holds_up_no_others(own_rabbitmq: RabbitMq, lab: Lab, kit: Kit, name: str) -> None:
    lab.exchange(name, "topic")
    lab.queue(name)
    lab.bind(name, name, "#")
    who = f'<<"guest">>,<<"/">>,<<"{name}">>'
    erlang = f'rabbit_auth_backend_internal:set_topic_permissions({who},<<"^ok">>,<<".*">>,<<"x">>).'
    await thread(own_rabbitmq.evaluate, erlang)
    options = {"server": f"127.0.0.1:{own_rabbitmq.port}", "exchange": name, "routing_key": "{subject}"}
    sink: Any = kit.sink("rabbitmq", options)
    async with running(sink):
        bad, good = numbered(1, subject="bad"), numbered(2, subject="ok")
        assert "access to topic 'bad' in exchange" in (await attempt(sink, bad, 30)).reason
        for _ in range(3):
            sent = Attempts()
            for event in (good, bad, good):
                sent.send(sink, event, 30)
            outcomes = await sent.ended()
            assert [(o.delivered, o.retry) for o in outcomes] == [(True, False), (False, True), (True, False)]
        assert list(sink.metrics().values()) == [1]
