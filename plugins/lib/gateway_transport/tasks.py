"""Tasks whose work is a compiled coroutine (docs/howto/compiled-build.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")


async def run(work: Callable[..., Awaitable[_T]], *args: object) -> _T:
    """The first coroutine of a task, for `TaskGroup.start_soon(run, work, ...)`. When anyio cancels a task, it asks its
    first coroutine for its state, and a compiled one has none. The gateway starts a component's tasks in this way."""
    return await work(*args)
