"""The base of sinks whose client library is async."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from .errors import Refused
from .event import Event
from .outcome import DELIVERED, Outcome, raised, unwritable


class AsyncSink:
    """Base of sinks whose client library is async. Implement `deliver`; this class runs it as a task with the time
    limit. `deliver` returns None when the remote side has the event, returns an `Outcome` to say more, or raises
    (`Refused` is not retried, others are; a shortage on this machine is no attempt, see `Outcome.local`)."""

    address = ""
    _tasks: TaskGroup | None = None

    async def start(self, tasks: TaskGroup) -> None:
        self._tasks = tasks

    async def stop(self) -> None:
        return

    async def deliver(self, event: Event) -> Outcome | None:
        raise NotImplementedError

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        assert self._tasks is not None, "send before start"
        self._tasks.start_soon(self._attempt, event, timeout_s, done)

    async def _attempt(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        outcome: Outcome | None = Outcome(False, retry=True, reason="cancelled")
        try:
            with anyio.fail_after(timeout_s):
                outcome = await self.deliver(event)
        except TimeoutError:
            outcome = Outcome(False, retry=True, reason=f"no response within {timeout_s:g} s")
        except Refused as e:
            # no code: only the remote side gives one
            outcome = unwritable(e)
        except Exception as e:
            outcome = raised(e)
        finally:
            done(outcome or DELIVERED)
