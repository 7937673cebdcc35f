"""What a sink sends to which connection, and what it makes of the answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import Attempts, attempt, numbered
from websockets.exceptions import ConnectionClosed

from gateway_core.contract.errors import StartError
from tests.faults.proxy import Proxy
from tests.websocket.far import ACK, PLAIN, Far
from tests.websocket.rig import client, closed, free_port, sink

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.mark.spec("WS-01", "WS-11")
async def test_an_event_goes_to_one_subscriber_the_one_with_the_least_to_do(kit: Kit) -> None:
    async with sink(kit) as made, client(made.address) as slow, client(made.address) as quick:
        await until(lambda: len(made._senders) == 2, "both subscribers")
        attempts = Attempts()
        for event in numbered(10):
            attempts.send(made, event)
        held = [json.loads(await slow.recv()) for _ in range(5)]
        seen = [json.loads(await quick.recv()) for _ in range(5)]
        assert sorted(e["id"] for e in held + seen) == [f"n{n}" for n in range(10)]
        await quick.send('{"ack":[1,5]}')
        await until(lambda: sum(map(bool, attempts.outcomes)) == 5, "five acknowledgements")
        for event in numbered(4, 10):
            attempts.send(made, event)
        assert [json.loads(await quick.recv())["id"] for _ in range(4)] == ["n10", "n11", "n12", "n13"]
        await quick.send('{"ack":[6,9],"more":"ignored"}')
        await slow.close()
        outcomes = await attempts.ended()
        assert Counter((o.delivered, o.retry) for o in outcomes) == {(True, False): 9, (False, True): 5}


@pytest.mark.spec("WS-11")
async def test_an_attempt_waits_for_a_subscriber(kit: Kit) -> None:
    async with sink(kit) as made:
        attempts = Attempts()
        attempts.send(made, numbered(1)[0])
        attempts.send(made, numbered(1, 1)[0], 0.05)
        await until(lambda: bool(attempts.outcomes[1]), "the short one")
        assert attempts.outcomes[1][0].retry
        async with client(made.address) as subscriber:
            assert json.loads(await subscriber.recv())["id"] == "n0"
            await subscriber.send('{"ack":1}')
            assert (await attempts.ended())[0].delivered


@pytest.mark.spec("WS-05")
async def test_answers_are_matched_by_number_and_nothing_else(kit: Kit) -> None:
    async with sink(kit) as made, client(made.address) as subscriber:
        attempts = Attempts()
        for event in numbered(6):
            attempts.send(made, event)
        for _ in range(6):
            await subscriber.recv()
        refusal = {"nack": 2, "problem": {"status": 422, "title": "No", "detail": "a\nb"}}
        later = {"nack": 3, "retry": True, "retry_after_s": 2.5, "problem": {"status": 503}}
        odd = {"nack": 4, "problem": {"status": 7}}
        for answer in ({"ack": 6}, {"ack": 6}, {"ack": 99}, {"ack": [9, 3]}, refusal, later, odd, {"ack": [5, 10**15]}):
            await subscriber.send(json.dumps(answer))
        await until(lambda: sum(map(bool, attempts.outcomes)) == 5, "five answers")
        assert attempts.outcomes[0] == []
        await subscriber.send('{"ack":[-5,1]}')
        found = await attempts.ended()
        assert [o.delivered for o in found] == [True, False, False, False, True, True]
        assert (found[1].code, found[1].retry, found[1].reason) == (422, False, "422 No: a b")
        assert (found[2].code, found[2].retry, found[2].retry_after_s) == (503, True, 2.5)
        assert found[3].code is None


@pytest.mark.spec("WS-09")
@pytest.mark.parametrize("text", ["{}", "[1]", "ack", '{"ack":"1"}', '{"ack":[1]}', '{"ack":1.5}', "[" * 5000, b"{}"])
async def test_what_is_no_answer_ends_the_connection_and_the_attempt_is_repeated(kit: Kit, text: str | bytes) -> None:
    async with sink(kit) as made, client(made.address) as subscriber:
        attempts = Attempts()
        attempts.send(made, numbered(1)[0])
        await subscriber.recv()
        await subscriber.send(text)
        assert await closed(subscriber) == 1008
        (outcome,) = await attempts.ended()
        assert (outcome.delivered, outcome.retry) == (False, True)


@pytest.mark.spec("WS-06")
async def test_a_plain_subscriber_that_sends_is_closed(kit: Kit) -> None:
    async with sink(kit) as made, client(made.address, PLAIN) as subscriber:
        assert (await attempt(made, numbered(1)[0])).delivered
        await subscriber.send("{}")
        assert await closed(subscriber) == 1008


@pytest.mark.slow
@pytest.mark.spec("WS-06", "WS-08")
@pytest.mark.parametrize("subprotocol", [ACK, PLAIN])
async def test_a_subscriber_that_reads_nothing_slows_only_itself(kit: Kit, subprotocol: str) -> None:
    """What it does not read waits, is not written to memory without bound, and fails in time."""
    async with sink(kit) as made:
        big = numbered(1)[0]
        big.data = b"x" * 500_000
        async with client(made.address, subprotocol, max_queue=1, max_size=None) as slow:
            await until(lambda: bool(made._senders), "the subscriber")
            attempts = Attempts()
            for _ in range(100):
                attempts.send(made, big, 1.0)
                await anyio.lowlevel.checkpoint()
            outcomes = await attempts.ended()
            assert any(o.retry for o in outcomes)
            assert len(made._waiting) == 0
            delivered = sum(o.delivered for o in outcomes)
            assert delivered < 60, "more than any buffer holds"
            assert subprotocol == PLAIN or delivered == 0
            slow.transport.abort()
        async with client(made.address, subprotocol) as quick:
            attempts = Attempts()
            attempts.send(made, numbered(1, 1)[0])
            assert json.loads(await quick.recv())["id"] == "n1"
            if subprotocol == ACK:
                await quick.send('{"ack":1}')
            assert (await attempts.ended())[0].delivered


@pytest.mark.spec("WS-12")
async def test_a_stop_closes_subscribers_with_1001(kit: Kit) -> None:
    async with sink(kit) as made, client(made.address) as subscriber:
        await until(lambda: bool(made._senders), "the subscriber")
        await made.stop()
        assert await closed(subscriber) == 1001
        with pytest.raises(ConnectionClosed):
            await subscriber.recv()
        assert (await attempt(made, numbered(1)[0])).retry


@pytest.mark.spec("WS-04", "WS-07")
async def test_a_sink_connects_again_and_repeats_what_was_not_acknowledged(kit: Kit) -> None:
    with Far(ACK) as far:
        async with sink(kit, url=far.url) as made:
            far.hang()
            attempts = Attempts()
            attempts.send(made, numbered(1)[0])
            await until(lambda: bool(made._senders) and bool(made._senders[0].pending), "the event to be sent")
            await anyio.to_thread.run_sync(far.leave)
            (outcome,) = await attempts.ended()
            assert (outcome.delivered, outcome.retry) == (False, True)
            assert "connection" in outcome.reason
            await anyio.to_thread.run_sync(far.take)
            assert (await attempt(made, numbered(1)[0])).delivered
            assert far.connections == 2


@pytest.mark.slow
@pytest.mark.spec("WS-09", "SAFE-78")
async def test_a_sink_whose_connection_died_without_a_word_connects_again(kit: Kit) -> None:
    quick = {"ping_interval_s": 0.1, "ping_timeout_s": 0.2}
    with Far(ACK) as far, Proxy(far.port) as proxy:
        async with sink(kit, url=far.url.replace(str(far.port), str(proxy.port)), **quick) as made:
            assert (await attempt(made, numbered(1)[0])).delivered
            assert proxy.forget() == 1
            outcome = await attempt(made, numbered(1, 1)[0])
            assert (outcome.delivered, outcome.retry) == (False, True)
            assert (await attempt(made, numbered(1, 1)[0])).delivered
            assert proxy.accepted == 2


@pytest.mark.spec("WS-03")
async def test_a_server_without_a_common_subprotocol_is_refused(kit: Kit) -> None:
    with Far("mqtt") as far:
        made: Any = kit.sink("websocket", {"url": far.url, "acknowledge": "required"})
        async with anyio.create_task_group() as tasks:
            await made.start(tasks)
            assert "subprotocol" in (made._connection.error or "")
            await made.stop()


async def test_a_listening_sink_works_with_one_worker(kit: Kit) -> None:
    from dataclasses import replace

    made: Any = kit.sink("websocket", {"listen": f"127.0.0.1:{free_port()}"})
    with pytest.raises(StartError, match="one worker"):
        type(made)(made._options, replace(made._context, workers=2))
