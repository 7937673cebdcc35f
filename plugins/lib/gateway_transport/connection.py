"""Keeps a client connected."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from gateway_core.contract.component import OwnMetric
from gateway_core.contract.errors import StartError
from gateway_core.contract.one_line import one_line

log = logging.getLogger("tidegate.transport")

FIRST_S = 5.0
"""How long `start` waits for the first connection; in seconds."""
SHORTEST_S, LONGEST_S = 0.2, 10.0
"""The wait before the first retry, and the longest; in seconds."""
STEADY_S = 1.0
"""A connection that lasted this long, and as long as the wait before it, is followed by the shortest wait; in
seconds."""

TELL_EVERY_S = 60.0
"""How often the log gets a loss for the same reason, in seconds."""

Session = Callable[[Callable[[], None]], Awaitable[None]]
"""Connects, calls the function it gets once it is connected, and stays until the connection ends: it returns or raises.
It closes what it opened, even when it is cancelled."""


class Rejected(Exception):
    """The remote side does not want this client: wrong credentials, no permission, a queue that is not as configured.
    At the first try a gateway does not start then; later it is retried like any other failure."""


_LOST = "tidegate_{}_connections_lost_total"


def lost_metric(word: str, server: str) -> OwnMetric:
    """The metric of `Connection.losses` for the components of this name."""
    help = f"Connections to {server} that were lost, by either side."
    return OwnMetric(_LOST.format(word), "counter", help)


def lost(word: str, losses: int) -> dict[str, float]:
    """The figure of that metric, for `Measured`."""
    return {_LOST.format(word): losses}


class Connection:
    """Runs a session again and again until `stop`.

    After a failure it waits 0.2 s, then twice as long each time up to 10 s, minus up to a half by chance. It begins
    with 0.2 s again after a connection that lasted 1 s, and as long as the wait before it: a server that restarts is
    soon found again, and one that ends each connection at once gets few. The log gets one line when the connection is
    lost or can't be made, and one when it is back; for losses with the same reason once a minute.

    `owner`      the component's path in the config, and `what` the remote side ("MQTT at mqtt://127.0.0.1:1883"): for
                 errors and the log.
    `connected`  True between the session's call and its end.
    `error`      why there is no connection; None while there is one.
    `losses`     how often a connection was lost.
    """

    def __init__(self, owner: str, what: str, session: Session) -> None:
        self._owner = owner
        self._what = what
        self._session = session
        self._scope: anyio.CancelScope | None = None
        self._first: anyio.Event | None = None
        self._finished: anyio.Event | None = None
        self._rejected: str | None = None
        self._ended = False
        self._since = 0.0
        self._lost: str | None = None  # the error of the loss that was logged last, and when that was
        self._lost_at = 0.0
        self._untold = 0  # losses since then
        self._quiet = False  # whether the last loss was not logged
        self.connected = False
        self.error: str | None = f"{what}: not connected yet"
        self.losses = 0

    async def start(self, tasks: TaskGroup) -> None:
        """Returns once connected, or after 5 s; then it keeps trying. Raises `StartError` if the session raises
        `Rejected` at its first try."""
        self._first, self._finished = anyio.Event(), anyio.Event()
        tasks.start_soon(self._keep)
        with anyio.move_on_after(FIRST_S):
            await self._first.wait()
        if self._rejected is not None:
            raise StartError(f"{self._owner}: {self._rejected}")

    async def stop(self) -> None:
        """Cancels the session, and returns once it has ended."""
        self._ended = True
        if self._scope is not None:
            self._scope.cancel()
        if self._finished is not None:
            await self._finished.wait()

    async def _keep(self) -> None:
        assert self._first is not None
        assert self._finished is not None
        wait, told = 0.0, ""
        try:
            with anyio.CancelScope() as self._scope:
                while not self._ended:
                    was, reason = await self._attempt()
                    if isinstance(reason, Rejected) and not was and not self._first.is_set():
                        self._rejected = self.error
                        return
                    if was:
                        self.losses += 1
                        self._tell_loss()
                    elif self.error != told:
                        log.warning("%s can't connect, and tries again: %s", self._owner, self.error)
                        self._quiet = False
                    told = self.error or ""
                    self._first.set()
                    steady = was and anyio.current_time() - self._since >= max(STEADY_S, wait)
                    wait = SHORTEST_S if steady or not wait else min(wait * 2, LONGEST_S)
                    await anyio.sleep(wait * random.uniform(0.5, 1.0))
        finally:
            self.connected = False
            self._first.set()
            self._finished.set()

    def _tell_loss(self) -> None:
        """Logs it, unless the same was logged a short time ago; the next line says how many there were."""
        now = anyio.current_time()
        self._quiet = self.error == self._lost and now - self._lost_at < TELL_EVERY_S
        if self._quiet:
            self._untold += 1
            return
        more = f" ({self._untold} times more since it was last said)" if self._untold else ""
        log.warning("%s lost its connection: %s%s", self._owner, self.error, more)
        self._lost, self._lost_at, self._untold = self.error, now, 0

    async def _attempt(self) -> tuple[bool, BaseException | None]:
        """One session: whether it was connected, and what ended it."""
        failure: BaseException | None = None
        try:
            await self._session(self._now_connected)
        except Exception as e:
            failure = leaf(e)
        was, self.connected = self.connected, False
        self.error = f"{self._what}: {reason_of(failure) if failure is not None else 'the connection ended'}"
        return was, failure

    def _now_connected(self) -> None:
        assert self._first is not None
        if self._first.is_set() and not self._quiet:
            log.info("%s is connected: %s", self._owner, self._what)
        self.connected, self.error = True, None
        self._since = anyio.current_time()
        self._first.set()


def leaf(error: BaseException) -> BaseException:
    """The first error in a group of errors, which task groups raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def reason_of(error: BaseException) -> str:
    """One line that says what went wrong."""
    if isinstance(error, OSError) and error.strerror:
        return one_line(error.strerror)
    text = one_line(error)
    if isinstance(error, Rejected | StartError) or (text and isinstance(error, OSError)):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
