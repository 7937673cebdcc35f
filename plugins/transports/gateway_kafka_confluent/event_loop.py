"""Runs coroutines on the event loop from another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

_T = TypeVar("_T")
_LOOK_S = 0.5  # how often to check whether the loop is still alive


def run_on_loop(loop: asyncio.AbstractEventLoop, asked: Callable[[], Coroutine[Any, Any, _T]]) -> _T | None:
    """Runs the coroutine on the loop and returns its result, or None if it is cancelled or the loop ends first. Blocks;
    raises what the coroutine raises."""
    future: Future[_T] = Future()
    ready = threading.Event()
    future.add_done_callback(lambda _: ready.set())

    def ask() -> None:  # creates the coroutine on the loop: if the loop had ended, it would never be awaited
        asyncio.ensure_future(asked()).add_done_callback(answered)

    def answered(task: asyncio.Task[_T]) -> None:
        if task.cancelled():
            future.cancel()
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())

    try:
        loop.call_soon_threadsafe(ask)
    except RuntimeError:  # the loop has ended
        return None
    while not ready.wait(_LOOK_S):
        if loop.is_closed():
            return None
    try:
        return future.result()
    except CancelledError:
        return None
