"""The source by itself: when callers are answered, and when they are turned away."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import gateway_cloudevents.plugin
import gateway_fn.plugin
import httpx
import pytest
from gateway_testing import ScriptedSink

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, Component, Config, SourceRef, Transport
from gateway_core.contract.errors import Overloaded, Refused, StartError, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Accepted, Admission, Outcome, Source
from tests import web

pytestmark = pytest.mark.anyio
RETURNED = Outcome(True, code=200, reply=Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t"}, b"1"))


class Memory:
    """An intake that answers when the test says so."""

    stores = True
    deduplicates = False
    admissions: Sequence[Admission] = ()

    def __init__(self) -> None:
        self.waiting: list[tuple[Sequence[Event], Accepted]] = []
        self.letters: list[tuple[Event, Outcome, str, Accepted]] = []
        self.attempts: list[Outcome] = []

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        self.waiting.append((events, done))

    def withdraw(self, partition: int) -> Sequence[int]:
        return ()

    def refuse(self, error: Refused) -> None: ...

    def attempted(self, event: Event, outcome: Outcome, seconds: float) -> None:
        self.attempts.append(outcome)

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        self.letters.append((event, outcome, dest, done))


class Functions:
    def __init__(self, function: ScriptedSink) -> None:
        self.function = function

    @hookimpl
    def gateway_transports(self) -> list[Transport]:
        return [Transport("scripted", sink=Component("scripted", "For tests.", Config, lambda o, c: self.function))]


def build(function: ScriptedSink, **options: Any) -> Source:
    registry = Registry()
    registry.add("cloudevents", gateway_cloudevents.plugin)
    registry.add("fn", gateway_fn.plugin)
    registry.add("functions", Functions(function))
    context = BuildContext("brokers.b.ingress[0]", Path(), SystemClock(), registry)
    config = {"listen": "127.0.0.1:0", "function": "scripted", **options}
    source: Source = registry.build(SourceRef("fn", config), context)
    return source


class Bench:
    def __init__(self, function: ScriptedSink, **options: Any) -> None:
        self.function = function
        self.intake = Memory()
        self.source = build(function, **options)
        self.answers: list[httpx.Response] = []
        self._client = web.async_client(timeout=30, verify=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Bench]:
        async with self._client, anyio.create_task_group() as self.tasks:
            await self.source.start(self.intake, self.tasks)
            try:
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await self.source.stop()

    async def get(self) -> httpx.Response:
        answer = await self._client.get(self.source.address)
        self.answers.append(answer)
        return answer

    async def until(self, what: Any) -> None:
        with anyio.fail_after(60):
            while not what():  # noqa: ASYNC110 - the outside is polled
                await anyio.sleep(0.005)


@pytest.mark.spec("FN-05")
async def test_the_caller_is_answered_after_the_event_is_safe() -> None:
    async with Bench(ScriptedSink(default=RETURNED)).running() as bench:
        bench.tasks.start_soon(bench.get)
        await bench.until(lambda: bench.intake.waiting)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert bench.answers == []
        bench.intake.waiting[0][1](None)
        await bench.until(lambda: bench.answers)
    assert (bench.answers[0].status_code, bench.answers[0].content) == (200, b"1")
    assert [o.delivered for o in bench.intake.attempts] == [True]


@pytest.mark.parametrize("error", [Overloaded("full", 2.5), StorageError("no space"), RuntimeError("a bug")])
async def test_the_caller_is_told_when_the_event_is_not_kept(error: Exception) -> None:
    async with Bench(ScriptedSink(default=RETURNED)).running() as bench:
        bench.tasks.start_soon(bench.get)
        await bench.until(lambda: bench.intake.waiting)
        bench.intake.waiting[0][1](error)
        await bench.until(lambda: bench.answers)
    assert bench.answers[0].status_code == 503
    wait = "3" if isinstance(error, Overloaded) else "1" if isinstance(error, StorageError) else None
    assert bench.answers[0].headers.get("retry-after") == wait
    assert "bug" not in bench.answers[0].text


async def test_no_more_calls_than_allowed_are_under_way() -> None:
    async with Bench(ScriptedSink(hold=True), max_in_flight=1).running() as bench:
        bench.tasks.start_soon(bench.get)
        await bench.until(lambda: bench.function.held)
        assert (await bench.get()).status_code == 503
        bench.function.answer(Outcome(True, code=202))
        await bench.until(lambda: len(bench.answers) == 2)
        assert bench.answers[1].status_code == 204
        bench.tasks.start_soon(bench.get)
        await bench.until(lambda: bench.function.held)
        bench.function.answer(Outcome(True, code=202))
        await bench.until(lambda: len(bench.answers) == 3)
        assert bench.answers[2].status_code == 204


@pytest.mark.slow
@pytest.mark.spec("FN-13")
async def test_callers_are_turned_away_while_the_dead_letter_is_down() -> None:
    async with Bench(ScriptedSink(hold=True), timeout_s=0.05).running() as bench:
        async with anyio.create_task_group() as calls:
            for _ in range(64):
                calls.start_soon(bench.get)
        assert {a.status_code for a in bench.answers} == {504}
        assert len(bench.intake.letters) == 64
        event, outcome, dest, _ = bench.intake.letters[0]
        assert (event.attributes["eventType"], dest) == ("io.fnproject.httpRequest", "memory:")
        assert outcome.reason.startswith("past its deadline")
        assert (await bench.get()).status_code == 503
        for *_, done in bench.intake.letters:
            done(None)
        assert (await bench.get()).status_code == 504
        bench.intake.letters[-1][3](StorageError("no dead letter"))


@pytest.mark.spec("FN-13")
async def test_an_answer_after_the_deadline_is_ignored() -> None:
    async with Bench(ScriptedSink(hold=True), timeout_s=0.05).running() as bench:
        assert (await bench.get()).status_code == 504
        bench.function.answer(RETURNED)
        await anyio.lowlevel.checkpoint()
        bench.intake.letters[0][3](None)
    assert bench.intake.waiting == []
    assert [o.delivered for o in bench.intake.attempts] == [False]


async def test_stopping_answers_callers_and_waits_for_letters() -> None:
    bench = Bench(ScriptedSink(hold=True), timeout_s=0.05)
    async with bench.running():
        await bench.get()
        stopped = anyio.Event()

        async def stop() -> None:
            await bench.source.stop()
            stopped.set()

        bench.tasks.start_soon(stop)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert not stopped.is_set()
        bench.intake.letters[0][3](None)
        with anyio.fail_after(60):
            await stopped.wait()
        with pytest.raises(httpx.ConnectError):
            await bench.get()


async def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        source = build(ScriptedSink(), listen=listen)
        async with anyio.create_task_group() as tasks:
            with pytest.raises(StartError, match=rf"brokers\.b\.ingress\[0\]: can't listen on {listen}"):
                await source.start(Memory(), tasks)
            with anyio.fail_after(60):  # the gateway stops whatever it has built
                await source.stop()


@pytest.mark.parametrize(
    "options",
    [{"path": "t"}, {"path": "/a?b"}, {"listen": "8080"}, {"public_url": "f.example"}, {"public_url": "http://f/?q"}],
)
async def test_options_that_can_not_be_right_are_faults(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"write|begins|is not an address"):
        build(ScriptedSink(), **options)
