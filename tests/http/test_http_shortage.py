"""A machine without file descriptors, ports, memory or threads: nothing is sent, and that is no attempt."""

from __future__ import annotations

import errno
import socket
from typing import Any

import anyio
import pytest
from gateway_http.local_ports import no_port_left
from gateway_testing import MemoryFeed, ScriptedSink, Subscriber

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.shortage import is_shortage
from gateway_core.delivery import Subscription
from tests.descriptors import without_descriptors
from tests.twins import twins

pytestmark = pytest.mark.anyio

EVENT = Event({"specversion": "1.0", "id": "1", "type": "t", "source": "/s"}, b"{}", position=1)


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("client", twins("native", "httpx"))
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_no_descriptor_is_no_attempt(kit: Any, client: str, host: str) -> None:
    with Subscriber() as subscriber:
        url = subscriber.url.replace("127.0.0.1", host)
        async with kit.sink(url, client=client) as sink:
            with without_descriptors():
                outcome: Outcome = await kit.send(sink, EVENT)
            assert (outcome.delivered, outcome.local, outcome.retry) == (False, True, True), outcome
            assert (await kit.send(sink, EVENT)).delivered
        assert len(subscriber.requests) == 1


@pytest.mark.spec("SAFE-34")
async def test_connections_that_are_there_serve_those_who_find_no_descriptor(kit: Any) -> None:
    outcomes: list[Outcome] = []
    with Subscriber() as subscriber:
        async with kit.sink(subscriber.url) as sink:
            assert (await kit.send(sink, EVENT)).delivered
            with without_descriptors():
                for _ in range(20):
                    sink.send(EVENT, 20.0, outcomes.append)
                await kit.until(lambda: len(outcomes) == 20)
    assert all(o.delivered for o in outcomes)


@pytest.mark.slow
@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("client", twins("native", "httpx"))
async def test_an_event_waits_for_a_descriptor_and_is_delivered_by_its_one_attempt(kit: Any, client: str) -> None:
    letters = ScriptedSink()
    feed = MemoryFeed()
    with Subscriber() as subscriber:
        async with kit.sink(subscriber.url, client=client) as sink:
            policy = DeliveryConfig(retry=0, timeout_s=5)
            subscription = Subscription("t", sink, policy, SystemClock(), dead_letter=letters)
            subscription.feed = feed
            with without_descriptors():
                assert subscription.offer(EVENT)
                await kit.until(lambda: subscription.short)
                await anyio.sleep(0.3)
                assert subscription.attempts <= subscription.in_flight
                assert feed.acked == []
            await kit.until(lambda: feed.acked == [1])
            assert (subscription.attempts, subscription.delivered, subscription.short) == (1, 1, False)
        assert len(subscriber.requests) == 1
    assert letters.sent == []


async def test_a_port_that_is_lacking_is_told_from_an_address_that_is() -> None:
    lacking = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
    assert await no_port_left(lacking, "127.0.0.1", 80)
    assert not await no_port_left(lacking, "192.0.2.1%nowhere", 80)
    assert not await no_port_left(ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "127.0.0.1", 80)
    wrapped = OSError("All connection attempts failed")
    wrapped.__cause__ = lacking
    assert await no_port_left(wrapped, "127.0.0.1", 80)


@pytest.mark.parametrize("number", ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"])
def test_shortages_are_found_by_their_number(number: str) -> None:
    code = getattr(errno, number)
    assert is_shortage(OSError(code, "words"))
    wrapped = RuntimeError("something else")
    wrapped.__cause__ = ExceptionGroup("many", [ValueError(), OSError(code, "words")])
    assert is_shortage(wrapped)


def test_memory_and_threads_can_run_short_too() -> None:
    assert is_shortage(MemoryError())
    assert is_shortage(RuntimeError("can't start new thread"))
    for other in (RuntimeError("no"), ConnectionRefusedError(), TimeoutError(), socket.gaierror(-2, "unknown")):
        assert not is_shortage(other)
