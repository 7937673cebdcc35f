"""The sink `redis`: adds each event to a stream; delivered when the server has answered with the entry's id."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup
from gateway_options.template import name_of
from gateway_transport.messages import writer
from redis.exceptions import ReadOnlyError

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.outcome import unwritable

from . import faults
from .binding import REDIS, fields_of
from .client import Client, client, close
from .config import STREAM, MaxAge, MaxLen, RedisSinkConfig
from .trimming import Trimmer

MOST_AT_ONCE = 500
MOST_BYTES = 4 * 1024 * 1024
"""The most commands and bytes that are sent together."""
MOST_VALUE = 512 * 1024 * 1024
"""The longest value that Redis takes (`proto-max-bulk-len`); it closes the connection of who sends more."""
FIRST_S = 2.0
"""How long the start waits to see whether the server takes our credentials; in seconds."""
STOP_S = 5.0
"""How long a stop waits for attempts under way; in seconds."""

Command = list[Any]


class _Attempt:
    """One event on its way. `deadline` is in seconds of the event loop's clock."""

    __slots__ = ("command", "deadline", "done", "size")

    def __init__(self, command: Command, size: int, deadline: float, done: Callable[[Outcome], None]) -> None:
        self.command = command
        self.size = size
        self.deadline = deadline
        self.done = done


class RedisSink:
    """`gateway_core.contract.interfaces.Sink`. Events that are sent while others are on their way go together in the
    next request, in their order: one task writes them all."""

    in_flight = 2000

    def __init__(self, options: RedisSinkConfig, context: BuildContext) -> None:
        self._options = options
        self._owner = context.owner
        self._offline = context.offline
        self._write = writer(options.codec, REDIS, context, options.key)
        self._stream = name_of(options.stream, STREAM)
        self._now_ns = context.clock.now_ns
        self._client: Client | None = None
        self._waiting: deque[_Attempt] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._running: anyio.CancelScope | None = None
        self._under_way: list[_Attempt] = []
        self._trimmer = Trimmer(self._owner) if options.trim == "acked" else None
        self._wait_ms = max(1, int(options.wait_timeout_s * 1000))  # 0 would mean for ever
        self.address = f"{options.where}/{options.visible('stream')}"

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Raises `StartError` if the server rejects the credentials."""
        self._client = client(self._options, self._owner)
        try:
            with anyio.move_on_after(FIRST_S):
                await self._client.execute_command("PING")
        except Exception as e:
            if faults.is_denied(e):
                await close(self._client)
                raise StartError(f"{self._owner}: {self._options.end}: {faults.words(e)}") from e
        tasks.start_soon(self._run, self._client)
        if self._trimmer is not None:
            tasks.start_soon(self._trimmer.run, self._client)

    async def stop(self) -> None:
        with anyio.move_on_after(STOP_S):
            while self._waiting or self._under_way:
                self._idle.clear()
                await self._idle.wait()
        if self._running is not None:
            self._running.cancel()
        if self._trimmer is not None:
            self._trimmer.stop()
        while self._waiting:
            self._waiting.popleft().done(Outcome(False, retry=True, reason="the gateway stops"))
        if self._client is not None:
            with suppress(Exception):
                await close(self._client)

    # -- events -----------------------------------------------------------------------------------------------------

    def preview(self, event: Event) -> Message:
        message = self._write(event)
        return Message(message.headers, message.body, message.key, url=f"{self._options.where}/{self._stream(event)}")

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            stream = self._stream(event)
            fields = fields_of(self._write(event))
            size = sum(map(len, fields))
            if size > MOST_VALUE:
                raise Refused(f"the event has {size} bytes; Redis takes at most {MOST_VALUE}")
        except Refused as e:
            done(unwritable(e))
            return
        deadline = asyncio.get_running_loop().time() + timeout_s
        self._waiting.append(_Attempt(["XADD", stream, *self._trimming(), "*", *fields], size, deadline, done))
        self._wake.set()

    def _trimming(self) -> tuple[Any, ...]:
        trim = self._options.trim
        if isinstance(trim, MaxLen):
            return ("MAXLEN", "~", trim.maxlen)
        if isinstance(trim, MaxAge):
            return ("MINID", "~", self._now_ns() // 1_000_000 - int(trim.max_age_s * 1000))
        return ()

    async def _run(self, redis: Client) -> None:
        with anyio.CancelScope() as self._running:
            while True:
                while self._waiting:
                    self._under_way = self._next()
                    if not self._under_way:
                        continue
                    outcomes = await self._sent(redis, self._under_way)
                    attempts, self._under_way = self._under_way, []
                    for attempt, outcome in zip(attempts, outcomes, strict=True):
                        attempt.done(outcome)
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
        for attempt in self._under_way:  # cancelled
            attempt.done(Outcome(False, retry=True, reason="the gateway stops"))
        self._under_way = []
        self._idle.set()

    def _next(self) -> list[_Attempt]:
        attempts: list[_Attempt] = []
        waiting, size, now = self._waiting, 0, asyncio.get_running_loop().time()
        while waiting and len(attempts) < MOST_AT_ONCE and (not attempts or size + waiting[0].size <= MOST_BYTES):
            attempt = waiting.popleft()
            if attempt.deadline <= now:  # would end the time of all others
                attempt.done(Outcome(False, retry=True, reason="no answer in time"))
                continue
            attempts.append(attempt)
            size += attempt.size
        return attempts

    async def _sent(self, redis: Client, attempts: list[_Attempt]) -> list[Outcome]:
        """Sends them together, and returns their outcomes."""
        pipeline = redis.pipeline(transaction=False)
        for attempt in attempts:
            pipeline.execute_command(*attempt.command)
        replicas = self._options.wait_replicas
        if replicas:
            pipeline.execute_command("WAIT", replicas, self._wait_ms)
        try:
            async with asyncio.timeout_at(min(attempt.deadline for attempt in attempts)):
                answers: list[Any] = await pipeline.execute(raise_on_error=False)
        except TimeoutError:
            return [Outcome(False, retry=True, reason="no answer in time")] * len(attempts)
        except Exception as e:
            if self._options.cluster:
                await self._anew(redis)  # looks up the nodes again
            return [faults.outcome_of(e)] * len(attempts)
        if any(isinstance(answer, ReadOnlyError) for answer in answers):
            await self._anew(redis)  # the name may lead to another server by now
        there = answers.pop() if replicas else 0
        outcomes = [faults.outcome_of(a) if isinstance(a, BaseException) else DELIVERED for a in answers]
        if replicas and (isinstance(there, BaseException) or there < replicas):
            reason = faults.words(there) if isinstance(there, BaseException) else f"{there} of {replicas} replicas"
            few = Outcome(False, retry=True, reason=f"not enough replicas have it: {reason}")
            outcomes = [few if outcome is DELIVERED else outcome for outcome in outcomes]
        if self._trimmer is not None:
            written = zip(attempts, answers, strict=True)
            self._trimmer.wrote(attempt.command[1] for attempt, a in written if not isinstance(a, BaseException))
        return outcomes

    async def _anew(self, redis: Client) -> None:
        """Closes the connections; the next command makes new ones."""
        with suppress(Exception):  # closing may fail, too: it times out on a peer that is stuck
            await close(redis)
