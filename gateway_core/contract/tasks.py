"""Errors of tasks and of stops: which ones must reach the caller, and how to stop one part without failing the rest."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

_log = logging.getLogger("tidegate.plugins")


def must_pass(error: BaseException) -> bool:
    """Whether an error ends the process or cancels this task, and not only what the task waits for."""
    task = asyncio.current_task()
    told = (task is not None and task.cancelling() > 0) or anyio.current_effective_deadline() == -math.inf
    return isinstance(error, KeyboardInterrupt | GeneratorExit) or (isinstance(error, asyncio.CancelledError) and told)


async def quietly(stop: Callable[[], Awaitable[Any]], owner: str = "a part", within_s: float | None = None) -> None:
    """Stops a part by `stop()`. An error, or a stop that takes longer than `within_s` seconds (None: no limit), is
    logged with the part's `owner` and not raised, so that the others can be stopped. Raises if the caller itself is
    cancelled."""
    try:
        with anyio.move_on_after(within_s) as scope:
            await stop()
        if scope.cancelled_caught:
            _log.error("%s did not stop within %g s, and is abandoned", owner, within_s)
    except (Exception, asyncio.CancelledError) as e:
        if must_pass(e):
            raise
        _log.exception("%s failed to stop cleanly", owner)
