"""Outcomes of deliveries, the same on both client engines, against a real subscriber."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest
from gateway_testing import FakeClock, ScriptedSink, Subscriber

from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from gateway_core.delivery import Subscription

pytestmark = pytest.mark.anyio

EVENT = Event({"specversion": "1.0", "id": "1", "type": "t"}, b'{"n":1}')
REPLY = {"ce-id": "r", "ce-type": "reply", "ce-specversion": "1.0", "content-type": "text/plain"}


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def subscriber() -> Iterator[Subscriber]:
    with Subscriber() as found:
        yield found


async def answer(kit: Any, client: str, status: Any, wants_reply: bool = False) -> Outcome:
    with Subscriber([status]) as subscriber:
        async with kit.sink(subscriber.url, wants_reply, client=client) as sink:
            outcome: Outcome = await kit.send(sink, EVENT, 10.0)
        assert len(subscriber.requests) == 1
    return outcome


@pytest.mark.spec("DP-04", "DP-10")
async def test_the_request(kit: Any, client: str, subscriber: Subscriber) -> None:
    url = subscriber.url.replace("http://", "http://us%40er:p%3Ass@") + "a/b?c=d"
    async with kit.sink(url, client=client, headers={"X-Team": "late flights"}) as sink:
        assert sink.address == subscriber.url + "a/b?c=d"
        for _ in range(3):
            assert (await kit.send(sink, EVENT)).delivered
    assert len(subscriber.requests) == 3
    for request in subscriber.requests:
        assert (request.method, request.path, request.body) == ("POST", "/a/b?c=d", b'{"n":1}')
        assert request.headers["host"] == f"127.0.0.1:{subscriber.port}"
        assert request.headers["ce-id"] == "1"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["content-length"] == "7"
        assert request.headers["x-team"] == "late flights"
        assert request.headers["authorization"] == "Basic " + base64.b64encode(b"us@er:p:ss").decode()
        assert "prefer" not in request.headers


@pytest.mark.spec("DP-21")
async def test_prefer_reply(kit: Any, client: str, subscriber: Subscriber) -> None:
    async with kit.sink(subscriber.url, True, client=client) as sink:
        assert (await kit.send(sink)).delivered
        assert (await kit.send(sink)).delivered
    assert [r.headers["prefer"] for r in subscriber.requests] == ["reply", "reply"]


DELIVERED = [200, 201, 202, 203, 204, 206, 299]
FAILED = [300, 301, 302, 303, 304, 307, 308, 399, 400, 401, 403, 405, 406, 410, 413, 415, 422, 451, 499]
RETRIED = [404, 408, 409, 429, 500, 501, 502, 503, 504, 599, 600, 999]


@pytest.mark.spec("DP-08")
@pytest.mark.parametrize("status", DELIVERED)
async def test_delivered(kit: Any, client: str, status: int) -> None:
    outcome = await answer(kit, client, status)
    assert (outcome.delivered, outcome.code, outcome.data, outcome.reply) == (True, status, None, None)


@pytest.mark.spec("DP-09", "DP-10", "DP-12")
@pytest.mark.parametrize("status", FAILED)
async def test_failed_for_good(kit: Any, client: str, status: int) -> None:
    extra = {"location": "/elsewhere"} if 300 <= status < 400 else {}
    outcome = await answer(kit, client, (status, extra, b"" if status == 304 else b"why"))
    assert (outcome.delivered, outcome.retry, outcome.code) == (False, False, status)
    assert outcome.data == (b"" if status == 304 else b"why")
    assert outcome.reason.startswith(str(status))
    assert "\n" not in outcome.reason


@pytest.mark.spec("DP-11", "DP-13", "DP-14")
@pytest.mark.parametrize("status", RETRIED)
async def test_to_be_retried(kit: Any, client: str, status: int) -> None:
    outcome = await answer(kit, client, (status, {}, b"why"))
    assert (outcome.delivered, outcome.retry, outcome.code, outcome.data) == (False, True, status, b"why")


@pytest.mark.spec("DP-14")
async def test_no_answer(kit: Any, client: str) -> None:
    outcome = await answer(kit, client, None)
    assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)
    assert outcome.reason


@pytest.mark.spec("DP-14")
async def test_refused_connection(kit: Any, client: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening: refused
        async with kit.sink(f"http://127.0.0.1:{bound.getsockname()[1]}/", client=client) as sink:
            for _ in range(2):
                outcome = await kit.send(sink)
                assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)
                assert "\n" not in outcome.reason
                assert outcome.reason


@pytest.mark.spec("DP-14")
async def test_timeout(kit: Any, client: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        async with kit.sink(f"http://127.0.0.1:{silent.getsockname()[1]}/", client=client) as sink:
            outcome = await kit.send(sink, timeout_s=0.2)
    assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)
    assert outcome.reason == "no response within 0.2 s"


@pytest.mark.spec("DP-17")
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after(kit: Any, client: str, status: int) -> None:
    assert (await answer(kit, client, (status, {"retry-after": "7"}, b""))).retry_after_s == 7.0
    date = formatdate(time.time() + 60, usegmt=True)
    waits = (await answer(kit, client, (status, {"Retry-After": date}, b""))).retry_after_s
    assert waits is not None
    assert 20 < waits <= 60
    past = formatdate(time.time() - 60, usegmt=True)
    assert (await answer(kit, client, (status, {"retry-after": past}, b""))).retry_after_s == 0.0
    assert (await answer(kit, client, status)).retry_after_s is None


@pytest.mark.spec("DP-17", "SAFE-22")
@pytest.mark.parametrize("value", ["1000000000", "9" * 40, "9" * 5000])
async def test_a_long_retry_after_is_honoured_up_to_the_limit(kit: Any, client: str, value: str) -> None:
    outcome = await answer(kit, client, (503, {"retry-after": value}, b""))
    clock, sink = FakeClock(), ScriptedSink([outcome])
    subscription = Subscription("t", sink, DeliveryConfig(backoff_delay_s=0.1), clock, dead_letter=ScriptedSink())
    subscription.offer(EVENT)
    clock.advance(DeliveryConfig().retry_after_max_s - 1)
    assert len(sink.sent) == 1
    clock.advance(1)
    assert len(sink.sent) == 2
    assert (await answer(kit, client, (503, {"retry-after": "0000000000007"}, b""))).retry_after_s == 7.0


@pytest.mark.parametrize("value", ["1_0", "+2", "-1", "1.5", "soon", "0x10", "١", "1 2", "Mon, 99 Foo GMT", ""])
async def test_retry_after_that_is_none(kit: Any, value: str) -> None:
    from gateway_transport.http_retries import retry_after_s

    assert retry_after_s(value.encode(), 0.0) is None


@pytest.mark.spec("DP-17")
@pytest.mark.parametrize(
    "value", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
)
async def test_a_retry_after_date_has_three_forms(kit: Any, value: str) -> None:
    from gateway_transport.http_retries import retry_after_s

    assert retry_after_s(value.encode(), 784111770.0) == 7.0


async def test_retry_after_counts_for_429_and_503_alone(kit: Any, client: str) -> None:
    assert (await answer(kit, client, (500, {"retry-after": "7"}, b""))).retry_after_s is None


async def test_what_the_remote_side_said_is_kept_up_to_64_kib(kit: Any, client: str) -> None:
    outcome = await answer(kit, client, (500, {}, b"x" * 200_000))
    assert outcome.data == b"x" * 65_536


@pytest.mark.spec("DP-22")
async def test_replies(kit: Any, client: str) -> None:
    binary = await answer(kit, client, (200, REPLY, b"hello"), wants_reply=True)
    assert binary.delivered
    assert binary.reply is not None
    assert (binary.reply.attributes["id"], binary.reply.data) == ("r", b"hello")
    kind = {"content-type": "Application/CloudEvents+json"}
    structured = await answer(kit, client, (200, {"content-type": "application/cloudevents+json"}, b'{"id":"s"}'), True)
    assert structured.reply is not None
    assert structured.reply.attributes["id"] == "s"
    assert (await answer(kit, client, (200, kind, b"{"), True)).retry


@pytest.mark.spec("DP-23")
@pytest.mark.parametrize("status", [201, 202, 203])
async def test_only_200_brings_a_reply(kit: Any, client: str, status: int) -> None:
    outcome = await answer(kit, client, (status, REPLY, b"hello"), wants_reply=True)
    assert (outcome.delivered, outcome.reply) == (True, None)


@pytest.mark.spec("DP-24")
async def test_replies_nobody_asked_for(kit: Any, client: str) -> None:
    outcome = await answer(kit, client, (200, REPLY, b"hello"), wants_reply=False)
    assert (outcome.delivered, outcome.reply) == (True, None)
    broken = await answer(kit, client, (200, {"ce-type": "no id"}, b""), wants_reply=False)
    assert broken.delivered


@pytest.mark.spec("DP-25")
@pytest.mark.parametrize("body", [b"", b"OK", b'{"id":"1"}'])
async def test_bodies_that_are_no_event(kit: Any, client: str, body: bytes) -> None:
    outcome = await answer(kit, client, (200, {"content-type": "application/json"}, body), wants_reply=True)
    assert (outcome.delivered, outcome.reply) == (True, None)


MALFORMED = {
    "binary": ({"ce-type": "no id"}, b"data"),
    "structured": ({"content-type": "application/cloudevents+json"}, b"{"),
    "empty structured": ({"content-type": "application/cloudevents+json"}, b""),
    "batch of two": ({"content-type": "application/cloudevents-batch+json"}, b'[{"id":"1"},{"id":"2"}]'),
    "too long": (REPLY, b"x" * (1024 * 1024 + 1)),
}


@pytest.mark.spec("BR-23")
@pytest.mark.parametrize(("headers", "body"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_replies_fail_the_delivery(kit: Any, client: str, headers: Any, body: bytes) -> None:
    outcome = await answer(kit, client, (200, headers, body), wants_reply=True)
    assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, 200)
    assert outcome.reason.startswith("the reply is not usable: ")


@pytest.mark.spec("DP-06")
@pytest.mark.parametrize("result", [200, 404, 405, 501, None])
async def test_the_probe_comes_first_and_stops_nothing(kit: Any, client: str, result: Any) -> None:
    with Subscriber([result]) as subscriber:
        async with kit.sink(f"{subscriber.url}?token=abcdefgh", client=client, probe=True) as sink:
            assert (await kit.send(sink)).delivered
            assert (await kit.send(sink)).delivered
        assert {r.path.partition("?")[2] for r in subscriber.requests} == {"token=abcdefgh"}
        assert [r.method for r in subscriber.requests] == ["OPTIONS", "POST", "POST"]
        assert "ce-id" not in subscriber.requests[0].headers


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\0b"])
async def test_line_breaks_never_leave(kit: Any, client: str, subscriber: Subscriber, value: str) -> None:
    async with kit.sink(subscriber.url, client=client) as sink:
        outcome = await kit.send(sink, Event({"id": value}))
        assert (outcome.delivered, outcome.retry, outcome.code) == (False, False, None)
        assert "line break" in outcome.reason
        assert (await kit.send(sink)).delivered
    assert len(subscriber.requests) == 1
