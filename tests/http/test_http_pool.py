"""The native client's connections, against servers that are scripted byte by byte."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from gateway_testing import MemoryFeed, ScriptedSink, Subscriber

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from gateway_core.delivery import Subscription

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
EVENT = Event({"id": "1"}, b"{}")
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[str]:
    """`script(reader, writer, n)` serves the n-th connection, which is closed after it."""
    count = 0
    tasks = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        task = asyncio.current_task()
        tasks.add(task)
        try:
            await script(reader, writer, count)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in tuple(tasks):
            if task is not None:
                task.cancel()
        await asyncio.sleep(0)


async def one_request(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2)


def always(response: bytes, close: bool = False) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        while True:
            await one_request(reader)
            writer.write(response)
            if close:
                return

    return script


MALFORMED = {
    "not HTTP": b"hello world\r\n\r\n",
    "unknown version": b"HTTP/3.9 200 OK\r\n\r\n",
    "status in letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "two lengths": b"HTTP/1.1 202 OK\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n",
    "length and chunked": b"HTTP/1.1 202 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "bad chunk": b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "endless head": b"HTTP/1.1 202 OK\r\n" + b"a: b\r\n" * 20_000,
    "cut in the head": b"HTTP/1.1 202 OK\r\nContent-",
    "cut in the body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    "cut in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
    "only an interim answer": b"HTTP/1.1 100 Continue\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.spec("DP-14")
@pytest.mark.parametrize("response", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_answers_are_no_answer(kit: Any, response: bytes) -> None:
    async with serving(always(response, close=True)) as url, kit.sink(url) as sink:
        for _ in range(2):
            outcome = await kit.send(sink, EVENT)
            assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)
            assert outcome.reason
            assert "\n" not in outcome.reason


FRAMED = {
    "length": OK,
    "chunked": b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\na: b\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "interim before": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
    "processing before": b"HTTP/1.1 102 Processing\r\n\r\n" + OK,
}


@pytest.mark.spec("DP-08")
@pytest.mark.parametrize("response", FRAMED.values(), ids=FRAMED.keys())
@pytest.mark.parametrize("piecewise", [False, True], ids=["whole", "bytewise"])
async def test_answers_that_keep_the_connection(kit: Any, response: bytes, piecewise: bool) -> None:
    connections = set()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        while await one_request(reader):
            connections.add(n)
            for part in [bytes([b]) for b in response] if piecewise else [response]:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)

    async with serving(script) as url, kit.sink(url) as sink:
        for _ in range(4):
            assert (await kit.send(sink, EVENT)).delivered
    assert connections == {1}


ENDED = {
    "no length": b"HTTP/1.1 200 OK\r\n\r\nsome text",
    "close": b"HTTP/1.1 202 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("response", ENDED.values(), ids=ENDED.keys())
async def test_answers_that_end_the_connection(kit: Any, response: bytes) -> None:
    async with serving(always(response, close=True)) as url, kit.sink(url) as sink:
        for _ in range(3):
            assert (await kit.send(sink, EVENT)).delivered


@pytest.mark.spec("DP-09")
async def test_switching_protocols_is_an_error(kit: Any) -> None:
    for extra in (b"", b"Connection: Upgrade\r\nUpgrade: x\r\n"):
        response = b"HTTP/1.1 101 Switching Protocols\r\n" + extra + b"\r\n"
        async with serving(always(response)) as url, kit.sink(url) as sink:
            outcome = await kit.send(sink, EVENT)
            assert (outcome.delivered, outcome.retry, outcome.code) == (False, False, 101)


async def test_more_than_was_asked_for_is_not_believed(kit: Any) -> None:
    """A second answer in the first one's read must not answer the next request."""
    connections = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        connections.append(n)
        while await one_request(reader):
            writer.write(OK + b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n" if n == 1 else OK)

    async with serving(script) as url, kit.sink(url) as sink:
        for _ in range(3):
            assert (await kit.send(sink, EVENT)).delivered
        await kit.until(lambda: connections == [1, 2])


async def test_a_part_of_an_answer_is_not_taken_for_one_that_was_seen(kit: Any) -> None:
    first_part, second_part = b"HTTP/1.1 202 Accepted\r\n", b"Content-Length: 0\r\n\r\n"
    got_first = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        await one_request(reader)
        writer.write(first_part)
        await got_first.wait()
        writer.write(second_part)
        await one_request(reader)
        writer.write(second_part)
        await reader.read()

    async with serving(script) as url, kit.sink(url) as sink:
        outcomes: list[Outcome] = []
        sink.send(EVENT, 20.0, outcomes.append)
        await asyncio.sleep(0.05)  # so that the parts come in two reads
        got_first.set()
        await kit.until(lambda: len(outcomes) == 1)
        assert outcomes[0].delivered
        outcome = await kit.send(sink, EVENT)
        assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)


@pytest.mark.parametrize(
    ("head", "seen"),
    [
        (b"500 No", True),
        (b"400 No", True),
        (b"503 No", True),
        (b"503 No\r\nRetry-After: Wed, 21 Oct 2065 07:28:00 GMT", False),  # another number of seconds each time
        (b"503 No\r\nRetry-After: 7", False),
    ],
)
async def test_a_failure_that_was_seen_is_not_parsed_again(kit: Any, head: bytes, seen: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        while True:
            await one_request(reader)
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: 4\r\n\r\nwhy?" % head)

    async with serving(script) as url, kit.sink(url) as sink:
        first, second = await kit.send(sink, EVENT), await kit.send(sink, EVENT)
    assert (second.delivered, second.code, second.data) == (False, int(head[:3]), b"why?")
    assert second.retry is (head[:1] == b"5")
    assert (first is second) is seen


async def test_bytes_on_an_idle_connection_end_it(kit: Any) -> None:
    push = asyncio.Event()
    pushed = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        await one_request(reader)
        writer.write(OK)
        if n == 1:
            await push.wait()
            writer.write(b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
            assert await reader.read() == b""
            pushed.set()
        await reader.read()

    async with serving(script) as url, kit.sink(url) as sink:
        assert (await kit.send(sink, EVENT)).delivered
        push.set()
        await pushed.wait()
        assert (await kit.send(sink, EVENT)).delivered


@pytest.mark.spec("SAFE-35")
async def test_a_kept_connection_that_is_closed_under_a_request_is_one_attempt(kit: Any) -> None:
    """Nothing is sent again unannounced: each request that the server sees has an outcome of its own."""
    seen: list[int] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        await one_request(reader)
        seen.append(n)
        writer.write(OK)
        await one_request(reader)  # taken, and not a byte of an answer
        seen.append(n)

    async with serving(script) as url, kit.sink(url) as sink:
        outcomes = [await kit.send(sink, EVENT) for _ in range(8)]
        assert [o.delivered for o in outcomes] == [True, False] * 4
        assert all(o.retry and not o.local for o in outcomes if not o.delivered)
        assert seen == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.slow
@pytest.mark.spec("SAFE-35")
async def test_the_rate_holds_where_kept_connections_are_closed(kit: Any) -> None:
    seen: list[float] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        for answer in (OK, b""):
            await one_request(reader)
            seen.append(time.monotonic())
            writer.write(answer)

    async with serving(script) as url, kit.sink(url) as sink:
        policy = DeliveryConfig(rate_per_s=20, backoff_delay_s=0, retry=100, max_in_flight=1)
        subscription = Subscription("t", sink, policy, SystemClock(), dead_letter=ScriptedSink())
        subscription.feed = feed = MemoryFeed()
        for n in range(6):
            subscription.offer(Event({"id": str(n)}, b"{}", position=n))
        await kit.until(lambda: len(feed.acked) == 6)
    assert len(seen) == subscription.attempts
    assert seen[-1] - seen[0] >= (len(seen) - 3) / 20


@pytest.mark.spec("SAFE-35")
@pytest.mark.parametrize("hint", [b"", b"Keep-Alive: timeout=1\r\n"], ids=["end", "told before"])
@pytest.mark.usefixtures("real_time")
async def test_a_connection_that_ended_while_it_was_idle_costs_no_attempt(kit: Any, hint: bytes) -> None:
    seen: list[int] = []
    closed = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        await one_request(reader)
        seen.append(n)
        writer.write(OK.replace(b"\r\n\r\n", b"\r\n" + hint + b"\r\n"))
        if not hint:
            await asyncio.sleep(0.02)
            writer.close()
            closed.set()
            return
        await reader.read()

    async with serving(script) as url, kit.sink(url) as sink:
        for turn in range(3):
            assert (await kit.send(sink, EVENT)).delivered
            if hint:
                await anyio.sleep(0.85)
            else:
                await closed.wait()
                closed.clear()
                if turn:  # the loop has not read the end when the next event comes
                    time.sleep(0.05)  # noqa: ASYNC251
    assert seen == [1, 2, 3]


@asynccontextmanager
async def warm(kit: Any, count: int, **options: Any) -> AsyncIterator[Any]:
    """A sink with so many idle connections that a firewall has forgotten: nothing on them is answered any more. Yields
    the sink, and the numbers of the connections that were opened."""
    opened: list[int] = []
    together = asyncio.Barrier(count)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        opened.append(n)
        while await one_request(reader):
            if n <= count:
                await together.wait()
                writer.write(OK)
                await reader.read()
            writer.write(OK)

    async with serving(script) as url, kit.sink(url, **options) as sink:
        outcomes: list[Outcome] = []
        for _ in range(count):
            sink.send(EVENT, 20.0, outcomes.append)
        await kit.until(lambda: len(outcomes) == count)
        assert all(o.delivered for o in outcomes)
        yield sink, opened


@pytest.mark.spec("SAFE-75")
async def test_a_connection_without_an_answer_takes_its_idle_siblings_with_it(kit: Any, client: str) -> None:
    async with warm(kit, 5, client=client) as (sink, opened):
        assert not (await kit.send(sink, EVENT, timeout_s=0.2)).delivered
        assert (await kit.send(sink, EVENT)).delivered
        assert opened == [1, 2, 3, 4, 5, 6]


@pytest.mark.spec("SAFE-75")
async def test_an_event_that_finds_dead_connections_is_delivered_by_its_second_attempt(kit: Any) -> None:
    async with warm(kit, 5) as (sink, _):
        letters, feed = ScriptedSink(), MemoryFeed()
        policy = DeliveryConfig(retry=1, backoff_delay_s=0, timeout_s=0.3)
        subscription = Subscription("t", sink, policy, SystemClock(), dead_letter=letters)
        subscription.feed = feed
        subscription.offer(Event({"id": "1"}, b"{}", position=1))
        await kit.until(lambda: feed.acked == [1])
        assert (subscription.attempts, letters.sent) == (2, [])


@pytest.mark.slow
@pytest.mark.spec("SAFE-76")
async def test_a_connection_has_a_greatest_age(kit: Any, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the subscriber may have another address by now."""
    monkeypatch.setattr("gateway_http.pool.MAX_AGE_S", 0.05)
    monkeypatch.setattr("gateway_http.pool.IDLE_S", 0.2)
    used: list[int] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        while await one_request(reader):
            await asyncio.sleep(0.15 if n == 1 else 0)  # in use for longer than that
            used.append(n)
            writer.write(OK)

    async with serving(script) as url, kit.sink(url, client=client) as sink:
        for _ in range(2):
            assert (await kit.send(sink, EVENT)).delivered
        await anyio.sleep(0.35)  # or idle
        assert (await kit.send(sink, EVENT)).delivered
    assert used == [1, 2, 3]


async def test_a_new_connection_that_closes_is_not_tried_again(kit: Any) -> None:
    seen = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        seen.append(await one_request(reader))

    async with serving(script) as url, kit.sink(url) as sink:
        outcome = await kit.send(sink, EVENT)
        assert (outcome.delivered, outcome.retry) == (False, True)
        assert len(seen) == 1


async def test_no_more_connections_than_allowed(kit: Any) -> None:
    with Subscriber(decide=lambda r: slow_answer()) as subscriber:
        outcomes: list[Outcome] = []
        async with kit.sink(subscriber.url, max_connections=3) as sink:
            for _ in range(30):
                sink.send(EVENT, 20.0, outcomes.append)
            await kit.until(lambda: len(outcomes) == 30)
        assert all(o.delivered for o in outcomes)
        assert len(subscriber.requests) == 30


def slow_answer() -> int:
    time.sleep(0.005)
    return 202


async def test_stop_ends_what_is_under_way(kit: Any) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, n: int) -> None:
        await reader.read()

    outcomes: list[Outcome] = []
    async with serving(script) as url:
        async with kit.sink(url, max_connections=1, probe=True) as sink:
            sink.send(EVENT, 20.0, outcomes.append)
            sink.send(EVENT, 20.0, outcomes.append)
            await anyio.sleep(0.02)
        await kit.until(lambda: len(outcomes) == 2)
        assert all(o.retry and not o.delivered for o in outcomes)


async def test_many_at_once_each_get_their_own_answer(kit: Any) -> None:
    """Answers differ by the event's id: none may be given to another request."""

    def decide(received: Any) -> Any:
        number = int(received.headers["ce-id"])
        return (400, {}, b"%d" % number) if number % 3 else 202

    results: dict[int, Outcome] = {}
    with Subscriber(decide=decide) as subscriber:
        async with kit.sink(subscriber.url, max_connections=8) as sink:
            for n in range(200):
                sink.send(Event({"id": str(n)}, b"{}"), 20.0, lambda o, n=n: results.__setitem__(n, o))
            await kit.until(lambda: len(results) == 200)
    for n, outcome in results.items():
        assert (outcome.delivered, outcome.data) == ((False, b"%d" % n) if n % 3 else (True, None))
