"""The source `websocket`: events from the connections that it accepts, or from the one that it opens."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from gateway_access.counts import Counts
from gateway_access.exposure import refuse_open
from gateway_access.gate import Gate, gate_of
from gateway_serving.listen import split_listen
from gateway_transport.connection import Connection
from gateway_transport.messages import reader

from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused, StartError, TidegateError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Intake, Source

from . import client
from .config import WebSocketSourceConfig
from .listener import Endpoint, Listener, attach, detach
from .receiver import Held, Receiver
from .socket import GOING_AWAY, POLICY, WebSocket
from .subprotocol import BINDING

log = logging.getLogger("tidegate.websocket")


class WebSocketSource:
    """`gateway_core.contract.interfaces.Source`."""

    def __init__(self, options: WebSocketSourceConfig, context: BuildContext) -> None:
        self._options = options
        self._context = context
        self._read = reader(CodecRef("cloudevents"), BINDING, context)
        self._connection: Connection | None = None
        self._endpoint: Endpoint | None = None
        self._listener: Listener | None = None
        self._receivers: set[Receiver] = set()
        self._connections = 0
        self._held = Held(options.max_held_bytes)
        self._stopping = False
        self._told = False
        self._intake: Intake
        self._counts = Counts()
        self._gate: Gate | None = None
        if options.listen is not None:
            if not context.offline:
                refuse_open(options, context.owner)
                if context.workers > 1 and split_listen(options.listen)[1] == 0:
                    text = f"{context.workers} workers share one port: `listen` needs a fixed one"
                    raise StartError(f"{context.owner}: {text}")
            self._gate = gate_of(options, context, counts=self._counts)
        self._rechecks: anyio.CancelScope | None = None
        self.pulls = options.pulls
        self.shares = options.listen is not None  # else each worker would get all events
        self.address = client.shown(options) if options.url is not None else ""

    def read(self, message: Message) -> list[Event]:
        """See `gateway_core.contract.capabilities.Reading`: the event of one text message."""
        return [self._read(message)]

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Listens, or connects; a server that is down is tried again and again. Raises `StartError`."""
        await self._start(intake, tasks, None)

    async def _start(self, intake: Intake, tasks: TaskGroup, instead: Endpoint | None) -> None:
        self._intake = intake
        options = self._options
        if options.url is not None:
            self._connection = client.connection(options, self._context, self._joined)
            await self._connection.start(tasks)
            return
        if self._gate is not None:
            await self._gate.start(tasks)
            if options.authenticate and options.recheck_s is not None:
                self._rechecks = anyio.CancelScope()
                tasks.start_soon(self._recheck, self._rechecks, self._gate, options.recheck_s)
        self._endpoint = Endpoint(self._context.owner, options, self._joined, self._gate)
        self._listener = attach(self._endpoint, self._context, instead)
        self.address = self._listener.url(options.path, hidden=options.hides("path"))

    async def take_over(self, old: Source, intake: Intake, tasks: TaskGroup) -> bool:
        """Replaces another source at the same address, without a moment at which nobody listens there; unless what
        belongs to the address differs, such as its limits: then it is opened again."""
        if not isinstance(old, WebSocketSource) or self._options.listen is None:
            return False
        mine, its = self._options, old._options
        if mine.listen != its.listen or old._context.broker != self._context.broker or old._listener is None:
            return False
        same = (mine.tls, mine.limits, mine.hosts) == (its.tls, its.limits, its.hosts)
        if not same and set(old._listener.routes) == {its.path}:
            await old.stop()
            await self._start(intake, tasks, None)
            return True
        if not same or mine.path != its.path:
            return False
        await self._start(intake, tasks, old._endpoint)
        await old.stop()
        return True

    async def stop(self) -> None:
        self._stopping = True
        if self._gate is not None:
            self._gate.leave()
        if self._listener is not None and self._endpoint is not None:
            await detach(self._listener, self._endpoint)
        async with anyio.create_task_group() as tasks:
            for receiver in list(self._receivers):
                tasks.start_soon(self._end, receiver)
        if self._connection is not None:
            await self._connection.stop()
        if self._rechecks is not None:
            self._rechecks.cancel()
        if self._gate is not None:
            await self._gate.stop()

    async def _end(self, receiver: Receiver) -> None:
        await receiver.drain()
        if self._connection is None:
            await client.shut(receiver.socket)

    def _joined(self, socket: WebSocket) -> None:
        self._receivers = {r for r in self._receivers if r.open or r.held}
        if self._stopping:
            socket.close(GOING_AWAY)
            return
        self._connections += 1
        receiver = Receiver(
            self._context.owner,
            self.address,
            self._options,
            self._context.clock,
            self._read,
            self._intake,
            socket,
            self._connections,
            self._gate,
            self._held,
        )
        if not receiver.acknowledges and not self._told:
            self._told = True
            log.warning(
                "%s: the other end uses `cloudevents.json`, without acknowledgements: its events arrive at most once",
                self._context.owner,
            )
        self._receivers.add(receiver)
        socket.handler = receiver

    async def _recheck(self, scope: anyio.CancelScope, gate: Gate, every_s: float) -> None:
        """Ends connections whose credentials have become wrong, so that a revoked key does not work for as long as its
        connection lasts."""
        with scope:
            while True:
                await anyio.sleep(every_s)
                for receiver in list(self._receivers):
                    if receiver.socket.is_open and receiver.socket.request is not None:
                        gate.check_again(receiver.socket.request, partial(_rechecked, receiver.socket))
                        await anyio.lowlevel.checkpoint()

    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return self._counts.metrics("websocket")

    def info(self) -> dict[str, Any]:
        """See `gateway_core.contract.capabilities.Watched`."""
        open = [r for r in self._receivers if r.open]
        return {
            "address": self.address,
            "error": self._connection.error if self._connection is not None else None,
            "lag": 0,
            "connections": len(open),
            "connections_without_acks": sum(not r.acknowledges for r in open),
            "unacknowledged": sum(r.held for r in self._receivers),
            **(self._gate.info() if self._gate is not None else {}),
        }


def _rechecked(socket: WebSocket, who: Identity | None, error: TidegateError | None) -> None:
    if isinstance(error, Refused) or (who is not None and who != socket.sender):
        socket.fail(POLICY, "the credentials are no longer valid")
