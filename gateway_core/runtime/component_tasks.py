"""Runs the start, the stop and the tasks of components, so that a failure of one does not affect the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ..contract.cancellation import must_pass
from ..contract.errors import ConfigError, StartError, StorageError
from ..pipeline.guards import text_of_error

log = logging.getLogger("tidegate.plugins")

SAY_AFTER_S = 10.0
"""A start that takes longer is logged repeatedly."""
START_S = 120.0
"""A component that takes longer fails to start."""
STOP_S = 30.0
"""A component that takes longer to stop, beyond the time for deliveries, is abandoned."""


def plugin_of(component: object) -> str:
    """The package that a component comes from, for the log."""
    return type(component).__module__.partition(".")[0]


def component_tasks(tasks: TaskGroup, owner: str, failed: Callable[[str], None]) -> TaskGroup:
    """The tasks of one component, in the gateway's task group. A task that raises ends alone: the log names the
    component (`owner`, its path in the config), and `failed` gets the reason."""
    # no subclass: what is final or abstract in a task group differs between the versions of anyio
    return cast("TaskGroup", _Tasks(tasks, owner, failed))


class _Tasks:
    """What a component may do with its task group."""

    def __init__(self, tasks: TaskGroup, owner: str, failed: Callable[[str], None]) -> None:
        self.owner = owner
        self.cancel_scope = tasks.cancel_scope
        self._tasks = tasks
        self._failed = failed

    def start_soon(self, func: Callable[..., Awaitable[Any]], *args: Any, name: object = None) -> Any:
        return self._tasks.start_soon(self._run, func, args, name=name or getattr(func, "__qualname__", None))

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: object = None, context: Context | None = None
    ) -> Any:
        return self._tasks.create_task(self._run(_awaited, (coro,)), name=name, context=context)

    async def start(self, func: Callable[..., Awaitable[Any]], *args: Any, name: object = None, **more: Any) -> Any:
        async def run(*, task_status: TaskStatus[Any]) -> None:
            status = _Status(task_status)
            try:
                await func(*args, task_status=status)
            except Exception as e:
                if not status.begun:
                    raise  # the caller waits for it
                self._end(e)

        return await self._tasks.start(run, name=name, **more)

    async def _run(self, func: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
        try:
            return await func(*args)
        except BaseException as e:  # also `SystemExit`: a component does not end the gateway
            if must_pass(e):
                raise
            self._end(e)

    def _end(self, error: BaseException) -> None:
        text = text_of_error(error)
        say = "%s: one of its tasks ended: %s. It needs a restart; everything else continues"
        log.error(say, self.owner, text, exc_info=error)
        self._failed(f"a task of {self.owner} ended: {text}")


class _Status:
    def __init__(self, inner: TaskStatus[Any]) -> None:
        self._inner = inner
        self.begun = False

    def started(self, value: Any = None) -> None:
        self.begun = True
        self._inner.started(value)


async def _awaited(coro: Coroutine[Any, Any, Any]) -> Any:
    return await coro


async def started(owner: str, start: Awaitable[None], within_s: float = START_S) -> None:
    """Starts a component. Raises `StartError` with its name, whatever the component raises, or if it takes too long;
    and its `ConfigError`, if it finds that the config is at fault."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    def say(again: Callable[..., None]) -> None:  # by its own name it would be a cycle, kept for ever by `gc.freeze`
        log.warning("%s has not started yet, after %.0f s", owner, loop.time() - began)
        timers.append(loop.call_later(SAY_AFTER_S, again, again))

    timers = [loop.call_later(SAY_AFTER_S, say, say)]
    try:
        with anyio.fail_after(within_s):
            await start
    except (StartError, ConfigError):
        raise
    except TimeoutError as e:
        if loop.time() - began < within_s:
            raise StartError(f"{owner}: {text_of_error(e)}") from e
        raise StartError(f"{owner}: not started within {within_s:g} s") from e
    except Exception as e:
        log.error("%s can't start", owner, exc_info=not isinstance(e, StorageError))
        raise StartError(f"{owner}: {text_of_error(e)}") from e
    finally:
        timers.pop().cancel()


async def quietly(stop: Callable[[], Awaitable[Any]], owner: str = "a part", within_s: float | None = None) -> None:
    """Stops a part. If that fails, it is logged, so that the others can be stopped."""
    try:
        with anyio.move_on_after(within_s) as scope:
            await stop()
        if scope.cancelled_caught:
            log.error("%s did not stop within %g s, and is abandoned", owner, within_s)
    except (Exception, asyncio.CancelledError) as e:
        if must_pass(e):
            raise
        log.exception("%s failed to stop cleanly", owner)
