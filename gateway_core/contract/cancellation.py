"""Which exceptions nobody may keep to himself."""

from __future__ import annotations

import asyncio
import math

import anyio


def must_pass(error: BaseException) -> bool:
    """Whether an error ends the process or cancels this task, and not only what the task waits for."""
    task = asyncio.current_task()
    told = (task is not None and task.cancelling() > 0) or anyio.current_effective_deadline() == -math.inf
    return isinstance(error, KeyboardInterrupt | GeneratorExit) or (isinstance(error, asyncio.CancelledError) and told)
