"""Connects to the server of a config."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
from gateway_options.client_tls import client_context
from gateway_transport.connection import Rejected
from pamqp import commands as amqp
from pamqp.base import Frame

from gateway_core.contract.errors import StartError

from .client_config import RabbitConfig
from .faults import NOT_FOUND, RabbitFault
from .link import Link
from .login import Login

T = TypeVar("T")

OPEN_S = 10.0
"""The time limit for opening a connection."""
CALL_S = 20.0
"""The time limit for a call."""


class Servers:
    """The servers of a config, each in turn."""

    def __init__(self, config: RabbitConfig, owner: str, *, offline: bool = False) -> None:
        """Reads the certificates. Raises `StartError`."""
        self._config = config
        self._owner = owner
        self._next = 0
        self._tls: ssl.SSLContext | None = None
        if config.tls is not None and not offline:
            self._tls = client_context(config.tls, owner)

    async def open(self) -> Link:
        """A connection to the next server. Raises `RabbitFault`."""
        config = self._config
        server = config.server[self._next % len(config.server)]
        self._next += 1
        host, _, port = server.rpartition(":") if not server.endswith("]") and ":" in server else (server, "", "")
        plain = config.login == "plain"
        login = Login(
            host.strip("[]"),
            int(port or (5672 if config.tls is None else 5671)),
            config.vhost,
            config.username if plain else None,
            config.password if plain else None,
            config.heartbeat_s,
            f"tidegate {self._owner}",
            self._tls,
        )
        try:
            with anyio.fail_after(OPEN_S):
                return await Link.open(login)
        except TimeoutError as e:
            raise RabbitFault(f"no answer within {OPEN_S:g} s") from e

    async def open_any(self) -> Link:
        """A connection to the first server that takes one. Raises the `RabbitFault` of the last, or of one that refuses
        the login."""
        for _ in self._config.server[1:]:
            try:
                return await self.open()
            except RabbitFault as e:
                if e.rejected:
                    raise
        return await self.open()


def check(config: RabbitConfig, needed: tuple[str, str], limit_s: float) -> None:
    """Connects, logs in, and looks for the queue or exchange that is `needed`. Raises `OSError` with the reason."""

    async def look(link: Link) -> None:
        kind, name = needed
        if kind == "queue":
            await depth(link, name)
        elif kind == "exchange":
            await find_exchange(link, name)

    _once(config, "check", limit_s, look)


def delete_queue(config: RabbitConfig, queue: str, limit_s: float) -> None:
    """Deletes a queue, with its messages. One that is not there is none. Raises `OSError` with the reason."""

    async def delete(link: Link) -> None:
        await probe(link, amqp.Queue.Delete(0, queue))

    _once(config, "orphans", limit_s, delete)


def queue_contents(config: RabbitConfig, queue: str, limit_s: float) -> tuple[int, int]:
    """How many messages a queue has, and how many consumers; none if it is not there. Raises `OSError`."""

    async def look(link: Link) -> tuple[int, int]:
        try:
            answer = await probe(link, amqp.Queue.Declare(0, queue, passive=True))
        except RabbitFault as e:
            if e.code != NOT_FOUND:
                raise
            return 0, 0
        return int(answer.message_count), int(answer.consumer_count)

    return _once(config, "orphans", limit_s, look)


def _once(config: RabbitConfig, owner: str, limit_s: float, act: Callable[[Link], Awaitable[T]]) -> T:
    """Does one thing with a connection of its own. Raises `OSError` with the reason."""

    async def run() -> T:
        with anyio.fail_after(limit_s):
            link = await Servers(config, owner).open_any()
            try:
                return await act(link)
            finally:
                await link.close()

    try:
        return anyio.run(run)
    except (RabbitFault, StartError) as e:
        raise OSError(str(e)) from e
    except TimeoutError as e:
        raise OSError(f"no answer within {limit_s:g} s") from e


async def depth(link: Link, queue: str) -> int:
    """How many messages wait in a queue. Raises `RabbitFault`, even if it does not exist. The time in which the link is
    paused does not count: the answer may wait unread."""
    asked = asyncio.ensure_future(_probed(link, amqp.Queue.Declare(0, queue, passive=True)))
    try:
        while True:
            before = link.pauses
            await asyncio.wait((asked,), timeout=CALL_S)
            if asked.done():
                found: Any = asked.result()
                return int(found.message_count)
            if not link.paused and link.pauses == before:
                raise RabbitFault(f"no answer to Queue.Declare within {CALL_S:g} s")
    finally:
        asked.cancel()


async def find_exchange(link: Link, name: str) -> None:
    """Raises `RabbitFault` if there is no such exchange."""
    await probe(link, amqp.Exchange.Declare(0, name, passive=True))


async def probe(link: Link, method: Frame) -> Any:
    """Calls a method on a channel of its own, which the server closes if it does not like it."""
    async with limited(method.name):
        return await _probed(link, method)


async def _probed(link: Link, method: Frame) -> Any:
    channel = await link.channel()
    channel.probe = True
    answer = await channel.call(method)
    await channel.close()
    return answer


@asynccontextmanager
async def limited(what: str) -> AsyncIterator[None]:
    """Limits the time for an answer of the server. Raises `RabbitFault`."""
    try:
        with anyio.fail_after(CALL_S):
            yield
    except TimeoutError as e:
        raise RabbitFault(f"no answer to {what} within {CALL_S:g} s") from e


def as_rejected(fault: RabbitFault) -> Exception:
    """The fault as what a session raises (`gateway_transport.connection`)."""
    if fault.rejected and fault.code != NOT_FOUND:
        return Rejected(str(fault))
    return ConnectionError(str(fault))
