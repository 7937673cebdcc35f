"""The source `redis`: reads streams as a consumer of a group, and acknowledges entries once their events are safe."""

from __future__ import annotations

import socket
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import anyio
from anyio.abc import TaskGroup
from gateway_transport.connection import Connection, Rejected, lost
from gateway_transport.messages import reader
from redis.exceptions import NoPermissionError, RedisClusterException, RedisError

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Intake

from . import faults
from .binding import REDIS
from .client import client, close
from .config import RedisSourceConfig
from .group import Group
from .reader import CONSUMER_PREFIX, StreamReader

STOP_S = 5.0
"""How long a stop waits for the last acknowledgements; in seconds."""


class RedisSource:
    """`gateway_core.contract.interfaces.Source`."""

    pulls = True
    shares = True  # the workers are consumers of one group

    def __init__(self, options: RedisSourceConfig, context: BuildContext) -> None:
        self._options = options
        self._owner = context.owner
        self.address = f"{options.where}/{options.visible('streams')}"
        self._group = options.group_of(context.broker)
        self._consumer = f"{options.consumer or _name(context)}-{context.worker}"
        self._read = reader(options.codec, REDIS, context)
        self._readers = [self._reader(context, n + 1, stream) for n, stream in enumerate(options.streams)]
        self._connection = Connection(self._owner, options.end, self._session)

    def _reader(self, context: BuildContext, number: int, stream: str) -> StreamReader:
        options = self._options
        group = Group(self._owner, stream, self._group, self._consumer, options.start)
        address = f"{options.where}/{stream}"
        return StreamReader(group, options, self._owner, address, number, self._read, context.clock)

    def read(self, message: Message) -> list[Event]:
        """See `gateway_core.contract.capabilities.Reading`: the event of one entry."""
        return [self._read(message)]

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Connects and creates the group; keeps trying while the server is down. Raises `StartError` if the server
        rejects the credentials, or a key is not a stream."""
        for one in self._readers:
            one.handover.intake = intake
        await self._connection.start(tasks)

    async def stop(self) -> None:
        for one in self._readers:
            one.stop_fetching()
        async with anyio.create_task_group() as drains:
            for one in self._readers:
                drains.start_soon(one.handover.drain)
        if self._connection.connected:
            with anyio.move_on_after(STOP_S):
                for one in self._readers:
                    await one.acknowledged()
        await self._connection.stop()

    async def _session(self, connected: Callable[[], None]) -> None:
        try:
            redis = client(self._options, self._owner)
        except StartError as e:
            raise Rejected(str(e).removeprefix(f"{self._owner}: ")) from e
        try:
            for one in self._readers:
                await one.group.create(redis)
            connected()
            async with anyio.create_task_group() as tasks:
                for one in self._readers:
                    tasks.start_soon(one.run, redis)
        except* (RedisError, RedisClusterException, OSError) as group:
            error = _first(group)
            text = faults.words(error)
            permanent = faults.is_denied(error) or isinstance(error, NoPermissionError) or "WRONGTYPE" in text
            raise (Rejected(text) if permanent else OSError(text)) from error
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(STOP_S):
                await close(redis)

    # -- for status -------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return lost("redis", self._connection.losses)

    def info(self) -> dict[str, Any]:
        streams = {one.group.stream: one.info() for one in self._readers}
        return {
            "address": self.address,
            "error": self._connection.error or (None if self._connection.connected else "stopped"),
            "lag": sum(facts["lag"] for facts in streams.values()),
            "group": self._group,
            "consumer": self._consumer,
            "losses": self._connection.losses,
            "streams": streams,
        }


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _name(context: BuildContext) -> str:
    """The same after a restart on this host with this data directory, and different for all other gateways."""
    host = socket.gethostname()
    folder = str(context.data_dir.absolute())
    return f"{CONSUMER_PREFIX}{host}-{sha256(f'{host} {folder}'.encode()).hexdigest()[:8]}-{context.broker}"
