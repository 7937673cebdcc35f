"""`gateway_transport.loop_calls.LoopCalls`: calls from other threads onto the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio.to_thread
import pytest
from gateway_testing.suites.kit import until
from gateway_transport.loop_calls import LoopCalls

pytestmark = [pytest.mark.anyio, pytest.mark.spec("TR-07")]


async def test_calls_from_threads_run_on_the_loop_in_the_order_of_each_thread() -> None:
    calls, made = LoopCalls(), list[tuple[int, int, int]]()

    def note(thread: int, number: int) -> None:
        made.append((thread, number, threading.get_ident()))

    def call_many(thread: int) -> None:
        for number in range(500):
            assert calls.call(note, thread, number)

    async with anyio.create_task_group() as tasks:
        for thread in range(4):
            tasks.start_soon(anyio.to_thread.run_sync, call_many, thread)
    await until(lambda: len(made) == 2000, "all calls")
    assert {ident for _, _, ident in made} == {threading.get_ident()}
    for thread in range(4):
        assert [number for by, number, _ in made if by == thread] == list(range(500))


async def test_the_loop_is_woken_once_for_all_that_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, woken = asyncio.get_running_loop(), 0
    wake = loop.call_soon_threadsafe

    def counted(*args: Any) -> Any:
        nonlocal woken
        woken += 1
        return wake(*args)

    calls, made = LoopCalls(), list[int]()
    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    for number in range(100):  # the loop runs none of them meanwhile
        assert calls.call(made.append, number)
    assert woken == 1
    await until(lambda: made == list(range(100)), "all calls")
    calls.call(made.append, 100)
    assert woken == 2
    await until(lambda: len(made) == 101, "the last call")


async def test_what_a_call_calls_comes_after_those_that_wait() -> None:
    calls, made = LoopCalls(), list[str]()
    calls.call(lambda: (made.append("first"), calls.call(made.append, "third")))
    calls.call(made.append, "second")
    await until(lambda: len(made) == 3, "all calls")
    assert made == ["first", "second", "third"]


async def test_a_call_that_raises_keeps_none_of_the_others() -> None:
    loop, told = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda loop, context: told.append(context))
    calls, made = LoopCalls(), list[int]()
    calls.call(made.append, 1)
    calls.call(lambda: 1 / 0)
    calls.call(made.append, 2)
    await until(lambda: len(made) == 2, "both calls")
    assert made == [1, 2]
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError]


def test_a_call_on_a_loop_that_has_ended_is_told() -> None:
    async def make() -> LoopCalls:
        return LoopCalls()

    calls = asyncio.run(make())
    assert calls.call(print) is False
    assert calls.call(print) is False
