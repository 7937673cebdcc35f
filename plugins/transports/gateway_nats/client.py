"""One connection to NATS: what is published goes through one task, and answers come back by callbacks.

nats-py's own reconnecting is off. A connection that is lost is made again by `gateway_transport.connection`, and what
depends on it (subscriptions, pull requests) with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import anyio
from anyio.abc import TaskGroup
from gateway_transport.connection import Connection, Rejected
from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.one_line import one_line

from .client_config import NatsConfig
from .connect import close, open_client, tls_of

log = logging.getLogger("tidegate.nats")

SWEEP_S = 0.1
LOOK_S = 1.0

Answered = Callable[[Msg | None, str], None]
"""Called with the answer, or None and the reason why there is none."""


class Link:
    """`begin` runs on each new connection, before it counts as one: it subscribes and checks streams. It may raise
    `Rejected`. `run` runs while the connection lasts, and `ended` is called when it is gone.

    `complaint` is what the server last complained about without ending the connection (a permission), None if nothing.
    """

    def __init__(
        self,
        options: NatsConfig,
        owner: str,
        clock: Clock,
        begin: Callable[[], Coroutine[Any, Any, None]],
        *,
        run: Callable[[], Coroutine[Any, Any, None]] | None = None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._options = options
        self._owner = owner
        self._clock = clock
        self._begin = begin
        self._run = run
        self._ended = ended
        self._turn = 0
        self._outbox: deque[tuple[str, bytes, str, dict[str, str] | None]] = deque()
        self._wake = asyncio.Event()
        self._waiting: dict[str, _Request] = {}
        self._parked: deque[_Request] = deque()  # until there is a connection
        self._stopped = False
        self._numbers = count(1)
        self._unconfirmed: list[str] = []
        self._inbox = ""
        self._sweep: Timer | None = None
        self._over: asyncio.Event | None = None
        self._why = ""
        self._tls: ssl.SSLContext | None = None
        self._connection = Connection(owner, f"NATS at {','.join(options.servers)}", self._session)
        self.queued_bytes = 0
        """The payloads of requests without an answer."""
        self.max_payload = 1 << 20
        self.complaint: str | None = None
        self.nc: Client
        self.js: JetStreamContext

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Returns once connected, or a little later if the server is down. Raises `StartError` if the server refuses
        the credentials, a stream or consumer is not as configured, or certificates can't be read."""
        self._tls = tls_of(self._options, self._owner)
        await self._connection.start(tasks)

    async def stop(self) -> None:
        """Closes the connection. What waits for an answer gets none."""
        self._stopped = True
        await self._connection.stop()
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep_out()

    @property
    def connected(self) -> bool:
        return self._connection.connected

    @property
    def error(self) -> str | None:
        """Why there is no connection, or what the server complains about."""
        return self._connection.error or self.complaint

    @property
    def losses(self) -> int:
        """How often the connection was lost."""
        return self._connection.losses

    def end(self, why: str) -> None:
        """Ends this connection, so that everything starts again."""
        self._why = why
        if self._over is not None:
            self._over.set()

    async def _session(self, connected: Callable[[], None]) -> None:
        self._over, self._why = asyncio.Event(), ""
        nc = None
        try:
            nc = await self._connected_client()
            self.nc = nc
            self.js = nc.jetstream(domain=self._options.domain, timeout=self._options.request_timeout_s)
            self.max_payload = nc.max_payload
            self.complaint = None
            self._inbox = nc.new_inbox() + "."
            await nc.subscribe(f"{self._inbox}*", cb=self._answered)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send, nc)
                await self._begin()
                connected()
                while self._parked:
                    self._put(self._parked.popleft())
                if self._run is not None:
                    tasks.start_soon(self._run)
                while not self._over.is_set() and not nc.is_closed:
                    # nats-py tells us only after it has written what waits; a server that hangs never reads it
                    with anyio.move_on_after(LOOK_S):
                        await self._over.wait()
                raise ConnectionError(self._why or "the connection was closed")
        finally:
            self._over = None
            self._outbox.clear()
            self._unconfirmed.clear()
            self._fail(lambda subject: True, "the connection was lost")
            self._ended()
            if nc is not None:
                await close(nc)

    async def _connected_client(self) -> Client:
        servers = self._options.servers
        self._turn += 1
        for number in range(len(servers)):
            server = servers[(self._turn + number - 1) % len(servers)]
            try:
                return await open_client(self._options, server, self._tls, self._complained, self.end)
            except Rejected:
                raise
            except Exception as e:
                failure = e
        raise failure

    def _complained(self, error: Exception) -> None:
        """The server or the library reports something, also while the connection works."""
        text = str(error)
        if not isinstance(error, errors.Error | OSError | TimeoutError):
            log.error("%s: a message was not handled: %s: %s", self._owner, type(error).__name__, one_line(error))
        if "permissions violation" not in text:
            return
        said = one_line(text.removeprefix("nats: "))
        if self.complaint != said:
            log.error("%s: NATS says: %s", self._owner, said)
        self.complaint = said
        self._fail(lambda subject: f'"{subject.lower()}"' in text, said)

    # -- to the server ----------------------------------------------------------------------------------------------

    def post(self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Publishes a message soon, in the order of the calls. It is lost if there is no connection, and with it."""
        if self._over is None:
            return
        self._outbox.append((subject, payload, reply, headers))
        self._wake.set()

    def request(
        self, subject: str, payload: bytes, headers: dict[str, str] | None, timeout_s: float, answered: Answered
    ) -> None:
        """Publishes a message, and calls `answered` once: with the first answer, or when none will come. Without a
        connection it waits for one."""
        self._ask(_Request(subject, payload, headers, True, self._clock.monotonic() + timeout_s, answered))

    def publish(
        self, subject: str, payload: bytes, headers: dict[str, str] | None, timeout_s: float, answered: Answered
    ) -> None:
        """Publishes a message with core NATS. Calls `answered(None, "")` once the server has read it, else with the
        reason. Without a connection it waits for one."""
        self._ask(_Request(subject, payload, headers, False, self._clock.monotonic() + timeout_s, answered))

    def _ask(self, request: _Request) -> None:
        if self._over is not None and self._connection.connected:  # a connection that ends is still `connected`
            self._put(request)
        else:
            self._parked.append(request)
        self.queued_bytes += len(request.payload)
        if self._sweep is None:
            self._sweep = self._clock.call_later(SWEEP_S, self._sweep_out)

    def _put(self, request: _Request) -> None:
        token = str(next(self._numbers))
        self._waiting[token] = request
        reply = self._inbox + token
        if not request.answers:
            self._unconfirmed.append(reply)
            reply = ""
        self._outbox.append((request.subject, request.payload, reply, request.headers))
        self._wake.set()

    @property
    def waiting(self) -> int:
        """Requests without an answer."""
        return len(self._waiting) + len(self._parked)

    @property
    def queued(self) -> int:
        """Messages that wait to be written."""
        return len(self._outbox)

    async def _send(self, nc: Client) -> None:
        outbox, wake, publish = self._outbox, self._wake, nc.publish
        while True:
            await wake.wait()
            wake.clear()
            while outbox:
                subject, payload, reply, headers = outbox.popleft()
                try:
                    await publish(subject, payload, reply, headers)
                except errors.ConnectionClosedError:
                    return
                except errors.Error as e:  # what can't be sent must not keep the rest
                    self._answer(reply, None, one_line(e))
            if self._unconfirmed:
                await self._confirm(nc)

    async def _confirm(self, nc: Client) -> None:
        replies, self._unconfirmed = self._unconfirmed, []
        try:
            await nc.flush(max(1, int(self._options.request_timeout_s)))
        except errors.Error as e:
            log.debug("can't flush: %s", e)
            return  # the time limits of those that wait will end them
        for reply in replies:
            self._answer(reply, None, "")

    # -- from the server --------------------------------------------------------------------------------------------

    async def _answered(self, msg: Msg) -> None:
        self._answer(msg.subject, msg, "")

    def _answer(self, inbox: str, msg: Msg | None, why: str) -> None:
        request = self._waiting.pop(inbox[len(self._inbox) :], None)
        if request is not None:
            self._done(request, msg, why)

    def _done(self, request: _Request, msg: Msg | None, why: str) -> None:
        self.queued_bytes -= len(request.payload)
        request.answered(msg, why)

    def _sweep_out(self) -> None:
        self._sweep = None
        now = self._clock.monotonic()
        while self._parked and (self._parked[0].deadline <= now or self._stopped):
            self._done(self._parked.popleft(), None, self.error or "no connection")
        for token in [token for token, request in self._waiting.items() if request.deadline <= now]:
            request = self._waiting.pop(token, None)
            if request is not None:
                self._done(request, None, "no answer in time")
        if self._waiting or self._parked:
            self._sweep = self._clock.call_later(SWEEP_S, self._sweep_out)

    def _fail(self, which: Callable[[str], bool], why: str) -> None:
        for token in [token for token, request in self._waiting.items() if which(request.subject)]:
            request = self._waiting.pop(token, None)
            if request is not None:
                self._done(request, None, why)


class _Request:
    """A message whose sender waits. `answers`: for the answer of whoever receives it, else for the server's."""

    __slots__ = ("answered", "answers", "deadline", "headers", "payload", "subject")

    def __init__(
        self,
        subject: str,
        payload: bytes,
        headers: dict[str, str] | None,
        answers: bool,
        deadline: float,
        answered: Answered,
    ) -> None:
        self.subject = subject
        self.payload = payload
        self.headers = headers
        self.answers = answers
        self.deadline = deadline
        self.answered = answered


def json_of(data: bytes) -> dict[str, Any]:
    """An answer of JetStream; {} if it is none."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
