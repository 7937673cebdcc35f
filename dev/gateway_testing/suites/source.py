"""What every source must do (`gateway_core.contract.interfaces.Source`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import httpx
import pytest
from anyio.abc import TaskGroup

from gateway_core.contract.errors import Overloaded, StorageError
from gateway_core.contract.event import Message
from gateway_core.contract.interfaces import Source

from ..vectors import VECTORS, Vector, same_data, texts
from .kit import PATIENCE_S, Kit, Suite, agrees_with_its_card, until
from .memory_intake import MemoryIntake

EXAMPLES = [v for v in VECTORS if v.version == "1.0"]


class SourceSuite(Suite):
    """Subclass it and write `build`; for a source that is not an HTTP ingress also `send` and `nonsense`:

    class TestMine(SourceSuite):
        def build(self, kit):
            return kit.source("mine", {"listen": "127.0.0.1:0"})

    `pulls` is that of the source: if it fetches its events, no sender waits for a response, and an event is
    acknowledged if it will not be fetched again. That includes input that is not an event. `PullingSourceSuite` tests
    such a source against a remote side that goes away and comes back.
    """

    pytestmark = pytest.mark.anyio
    pulls = False

    def build(self, kit: Kit) -> Source:
        raise NotImplementedError

    async def send(self, source: Source, vector: Vector) -> bool:
        """Sends an event; returns whether the source acknowledged it. Raises `OSError` if it can't be sent."""
        return await _post(source.address, vector.binary())

    async def nonsense(self, source: Source) -> bool:
        """Sends something that is not an event; returns whether the source acknowledged it."""
        return await _post(source.address, Message([(b"content-type", b"application/cloudevents+json")], b"{nonsense"))

    # -- the contract -------------------------------------------------------------------------------------------------

    def test_it_runs_in_the_workers_that_its_card_names(self, kit: Kit) -> None:
        assert agrees_with_its_card(kit, self.build(kit)), "its attributes `pulls` and `shares` say something else"

    async def test_it_takes_events_as_they_are(self, kit: Kit) -> None:
        async with self.running(kit) as (source, intake):
            for n, vector in enumerate(EXAMPLES):
                assert await self.send(source, vector), vector.name
                assert len(intake.events) == n + 1
                found = intake.events[n]
                have = texts(found)
                assert {name: have.get(name) for name in vector.event.attributes} == texts(vector.event)
                assert same_data(found.data, vector.event.data)
                assert found.received_ns > 0

    async def test_it_acknowledges_only_what_is_safe(self, kit: Kit) -> None:
        async with self.running(kit) as (source, intake), anyio.create_task_group() as tasks:
            intake.hold = True
            answers: list[bool] = []
            self._send_soon(tasks, source, answers)
            await until(lambda: len(intake.events) == 1, "the event to be taken")
            await anyio.sleep(0.05)
            assert answers == [], "acknowledged before the intake said that the event is safe"
            intake.release()
            await until(lambda: answers == [True], "the acknowledgement")

    @pytest.mark.parametrize(
        "error", [StorageError("the disk is full"), Overloaded("too much")], ids=["storage", "busy"]
    )
    async def test_it_does_not_acknowledge_what_is_lost(self, kit: Kit, error: BaseException) -> None:
        async with self.running(kit) as (source, intake):
            intake.result = error
            assert not await self.send(source, EXAMPLES[0])
            intake.result = None
            assert await self.send(source, EXAMPLES[0])
            assert intake.refused == []

    async def test_it_refuses_nonsense_and_says_so_to_the_intake(self, kit: Kit) -> None:
        async with self.running(kit) as (source, intake):
            assert await self.nonsense(source) == self.pulls
            assert len(intake.refused) == 1
            assert intake.events == []
            assert await self.send(source, EXAMPLES[0])

    async def test_senders_at_once_are_each_answered(self, kit: Kit) -> None:
        async with self.running(kit) as (source, intake):
            answers: list[bool] = []
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    self._send_soon(tasks, source, answers)
            assert answers == [True] * 20
            assert len(intake.events) == 20

    async def test_a_stop_answers_what_was_taken(self, kit: Kit) -> None:
        async with self.running(kit) as (source, intake), anyio.create_task_group() as tasks:
            intake.hold = True
            answers: list[bool] = []
            self._send_soon(tasks, source, answers)
            await until(lambda: len(intake.events) == 1, "the event to be taken")
            stopped = anyio.Event()

            async def stop() -> None:
                await source.stop()
                stopped.set()

            tasks.start_soon(stop)
            await anyio.sleep(0.05)
            assert not stopped.is_set(), "it stopped while a sender was waiting"
            intake.release()
            await until(lambda: answers == [True] and stopped.is_set(), "the answer and the stop")

    async def test_after_a_stop_nothing_is_taken(self, kit: Kit) -> None:
        async with self.running(kit) as (source, intake):
            await source.stop()
            with suppress(OSError, httpx.HTTPError):
                assert not await self.send(source, EXAMPLES[0])
            assert intake.events == []

    # -- parts -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self, kit: Kit) -> AsyncIterator[tuple[Source, MemoryIntake]]:
        """A source that has started, and its intake; stopped at the end. Override it for one that takes a while to be
        ready."""
        source, intake = self.build(kit), MemoryIntake()
        async with anyio.create_task_group() as tasks:
            await source.start(intake, tasks)
            assert source.address, "the address must be known after start"
            yield source, intake
            with anyio.fail_after(PATIENCE_S):
                await source.stop()
            tasks.cancel_scope.cancel()

    def _send_soon(self, tasks: TaskGroup, source: Source, answers: list[bool]) -> None:
        async def send() -> None:
            answers.append(await self.send(source, EXAMPLES[0]))

        tasks.start_soon(send)


async def _post(url: str, message: Message) -> bool:
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False, verify=False) as client:
        headers = [(n, v) for n, v in message.headers]
        return (await client.post(url, headers=headers, content=message.body or b"")).is_success
