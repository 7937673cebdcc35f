"""A machine that is short of something: the event waits, and no attempt is counted."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_testing import FakeClock, MemoryFeed, ScriptedSink

from gateway_core.contract.async_sink import AsyncSink
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.outcome import short
from gateway_core.delivery import Subscription
from gateway_core.delivery.deliveries import of_partition

from .gateway_rig import Parts, running, until

SHORT = short(OSError(errno.EMFILE, "Too many open files"))


def event(n: int) -> Event:
    return Event({"specversion": "1.0", "id": str(n), "source": "/t", "type": "t"}, position=n)


class Rig:
    def __init__(self, sink: ScriptedSink, ordered: bool = False, **policy: object) -> None:
        self.clock, self.sink, self.feed = FakeClock(), sink, MemoryFeed()
        self.letters = ScriptedSink()
        self.subscription = Subscription(
            *("t", sink, DeliveryConfig(**policy), self.clock),  # type: ignore[arg-type]
            dead_letter=self.letters,
            order_key_of=of_partition if ordered else None,
        )
        self.subscription.feed = self.feed


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("ordered", [False, True])
def test_a_shortage_is_waited_out_and_never_counted(ordered: bool) -> None:
    rig = Rig(ScriptedSink(default=SHORT), ordered, retry=0, max_in_flight=8)
    for n in range(1, 6):
        rig.subscription.offer(event(n))
    rig.clock.advance(3600)
    assert rig.letters.sent == rig.feed.acked == []
    assert (rig.subscription.attempts, rig.subscription.retried, rig.subscription.failures.in_a_row) == (0, 0, 0)
    assert rig.subscription.short
    assert len(rig.sink.sent) < 3700, "one look a second at the most"
    rig.sink.default = DELIVERED
    rig.clock.advance(1)
    assert rig.feed.acked == [1, 2, 3, 4, 5]
    assert rig.subscription.attempts == 5
    assert not rig.subscription.short


@pytest.mark.spec("SAFE-34")
def test_a_shortage_does_not_use_up_retries_between_attempts() -> None:
    busy = Outcome(False, retry=True, code=503, reason="503")
    rig = Rig(ScriptedSink([busy, SHORT, SHORT, busy, SHORT], DELIVERED), retry=2)
    rig.subscription.offer(event(1))
    rig.clock.advance(60)
    assert rig.feed.acked == [1]
    assert (rig.subscription.attempts, rig.subscription.delivered) == (3, 1)


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EMFILE, "x"), RuntimeError("can't start new thread")])
def test_a_sink_that_raises_for_a_shortage_loses_no_event(error: Exception) -> None:
    class Raising(ScriptedSink):
        def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
            if len(self.sent) < 3:
                self.sent.append(event)
                raise error
            super().send(event, timeout_s, done)

    rig = Rig(Raising(), retry=0)
    rig.subscription.offer(event(1))
    rig.clock.advance(5)
    assert rig.feed.acked == [1]
    assert rig.letters.sent == []


@pytest.mark.spec("SAFE-34")
def test_a_sink_that_raises_a_system_error_is_tried_again() -> None:
    """CPython's C code reports a shortage of memory that way, but also faults of its own: so each try counts."""

    class Raising(ScriptedSink):
        def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
            self.sent.append(event)
            raise SystemError("error return without exception set")

    rig = Rig(Raising(), retry=2)
    rig.subscription.offer(event(1))
    rig.clock.advance(60)
    assert len(rig.sink.sent) == 3
    assert [e.attributes["tidegateattempts"] for e in rig.letters.sent] == [3]


@pytest.mark.anyio
@pytest.mark.spec("SAFE-34")
async def test_a_sink_with_an_async_client_need_not_know_of_it() -> None:
    import anyio

    class Client(AsyncSink):
        async def deliver(self, event: Event) -> None:
            try:
                raise OSError(errno.ENFILE, "Too many open files in system")
            except OSError as e:
                raise ConnectionError("no connection") from e

    outcomes: list[Outcome] = []
    sink = Client()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        sink.send(event(1), 1.0, outcomes.append)
    assert [(o.local, o.retry) for o in outcomes] == [(True, True)]


@pytest.mark.anyio
@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("kind", ["triggers", "bridges"])
async def test_status_says_that_the_machine_is_short(tmp_path: Path, kind: str) -> None:
    parts = Parts(ScriptedSink(default=SHORT))
    config = {
        "triggers": {
            "brokers": {"b": {"ingress": [{"tap": {}}], "dead_letter": {"letters": {}}}},
            "triggers": {"t": {"broker": "b", "subscriber": {"far": {}}}},
        },
        "bridges": {"bridges": {"t": {"source": {"tap": {}}, "sink": {"far": {}}}}},
    }[kind]
    async with running(parts, config, tmp_path) as gateway:
        parts.tap.put(event(0))
        await until(lambda: gateway.status().entries(kind)[0].condition == "OutOfResources")
        status = gateway.status().entries(kind)[0]
        assert not status.ready
        assert "Too many open files" in status.reason
        assert (status.attempts - status.in_flight, status.dead_lettered) == (0, 0)
        parts.far.default = DELIVERED
        await until(lambda: gateway.status().entries(kind)[0].ready)
        await until(lambda: gateway.status().entries(kind)[0].delivered == 1)
