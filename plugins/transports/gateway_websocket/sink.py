"""The sink `websocket`: events to the server that it connects to, or to the subscribers that connect to it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup
from gateway_access.exposure import refuse_open
from gateway_options.secrecy import shown_url
from gateway_transport.connection import Connection, reason_of
from gateway_transport.messages import writer

from gateway_core.contract.clock import Timer
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.outcome import unwritable

from . import client
from .config import WebSocketSinkConfig
from .listener import Endpoint, Listener, attach, detach
from .sender import Attempt, Sender
from .socket import GOING_AWAY, WebSocket
from .subprotocol import BINDING

log = logging.getLogger("tidegate.websocket")


class WebSocketSink:
    """`gateway_core.contract.interfaces.Sink`. An event goes to one connection: of several subscribers, to the one with
    the fewest events under way. Without one that can take it, it waits as long as its attempt lasts; with `url`, until
    the next try to connect has failed."""

    in_flight = 500

    def __init__(self, options: WebSocketSinkConfig, context: BuildContext) -> None:
        self._options = options
        self._context = context
        self._clock = context.clock
        self._write = writer(CodecRef("cloudevents", {"mode": "structured"}), BINDING, context)
        if not context.offline:
            refuse_open(options, context.owner)
            if context.workers > 1 and options.url is None:
                text = "a subscriber would reach one worker only, and get its share of the events: use `url`, or one"
                raise StartError(f"{context.owner}: a listening sink works with one worker ({text} worker)")
        self._connection: Connection | None = None
        self._endpoint: Endpoint | None = None
        self._listener: Listener | None = None
        self._senders: list[Sender] = []
        self._waiting: deque[Attempt] = deque()
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._stopping = False
        self._told = False
        self.address = (
            client.shown(options)
            if options.url is not None
            else shown_url(f"ws://{options.listen}{options.path}", hidden=options.hides("path"))
        )

    async def start(self, tasks: TaskGroup) -> None:
        """Listens, or connects; a server that is down is tried again and again. Raises `StartError`."""
        options, context = self._options, self._context
        if options.url is not None:
            self._connection = client.connection(options, context, self._joined, self._tries)
            await self._connection.start(tasks)
            return
        self._endpoint = Endpoint(context.owner, options, self._joined)
        self._listener = attach(self._endpoint, context)
        self.address = self._listener.url(options.path, hidden=options.hides("path"))

    def release(self) -> None:
        """See `gateway_core.contract.capabilities.Fetched`: what waits for a subscriber or a connection."""
        waiting, self._waiting = self._waiting, deque()
        for attempt in waiting:
            attempt.end(Outcome(False, retry=True, local=True, reason="the gateway stopped before the event was sent"))

    async def stop(self) -> None:
        self._stopping = True
        if self._listener is not None and self._endpoint is not None:
            await detach(self._listener, self._endpoint)
        self.release()
        if self._connection is not None:
            await self._connection.stop()
        async with anyio.create_task_group() as tasks:
            for sender in list(self._senders):
                tasks.start_soon(client.shut, sender.socket)
        if self._timer is not None:
            self._timer.cancel()

    def preview(self, event: Event) -> Message:
        """See `gateway_core.contract.capabilities.Previewing`."""
        message = self._write(event)
        return Message(message.headers, message.body, url=self.address)

    # -- attempts -----------------------------------------------------------------------------------------------------

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            data = self._write(event).body or b""
        except Refused as e:
            done(unwritable(e))
            return
        sender = self._ready()
        if self._stopping:
            done(Outcome(False, retry=True, reason="the gateway stops"))
            return
        deadline = self._clock.monotonic() + timeout_s
        attempt = Attempt(data, deadline, done)
        if sender is None:
            self._waiting.append(attempt)
        else:
            sender.send(attempt)
        if self._timer is None or deadline < self._timer_at:
            self._arm(deadline)

    def _ready(self) -> Sender | None:
        """The connection for the next event."""
        senders = self._senders
        if len(senders) == 1:
            return senders[0] if senders[0].ready else None
        ready = [sender for sender in senders if sender.ready]
        return min(ready, key=lambda sender: len(sender.pending)) if ready else None

    def _pump(self) -> None:
        """Sends what waits."""
        waiting = self._waiting
        while waiting and (sender := self._ready()) is not None:
            attempt = waiting.popleft()
            if not attempt.ended:
                sender.send(attempt)

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._expire)

    def _expire(self) -> None:
        """Ends the attempts whose time is over. There is no timer per event."""
        self._timer = None
        now = self._clock.monotonic()
        for attempt in [a for a in self._waiting if a.deadline <= now]:
            why = "the connection took no more" if self._senders else "no subscriber was connected"
            attempt.end(Outcome(False, retry=True, reason=f"not sent in time: {why}"))
        self._waiting = deque(a for a in self._waiting if not a.ended)
        for sender in self._senders:
            for attempt in [a for a in sender.pending.values() if a.deadline <= now]:
                sender.forget(attempt)
                attempt.end(Outcome(False, retry=True, reason="no acknowledgement in time"))
        left = [a.deadline for a in self._waiting]
        left += [a.deadline for sender in self._senders for a in sender.pending.values()]
        if left and self._timer is None:
            self._arm(min(left))

    # -- connections --------------------------------------------------------------------------------------------------

    def _joined(self, socket: WebSocket) -> None:
        if self._stopping:
            socket.close(GOING_AWAY)
            return
        sender = Sender(socket, self._pump, self._gone)
        if not sender.acknowledges and not self._told:
            self._told = True
            log.warning(
                "%s: the other end uses `cloudevents.json`, without acknowledgements: an event counts as delivered once"
                " it is written to the socket",
                self._context.owner,
            )
        self._senders.append(sender)
        socket.handler = sender
        self._pump()

    def _tries(self) -> Callable[[Exception], None]:
        """A try to connect begins. If it fails, so has what waits for it."""
        waiting = list(self._waiting)

        def failed(error: Exception) -> None:
            for attempt in waiting:
                attempt.end(Outcome(False, retry=True, reason=reason_of(error)))
            self._waiting = deque(a for a in self._waiting if not a.ended)

        return failed

    def _gone(self, sender: Sender) -> None:
        if sender in self._senders:
            self._senders.remove(sender)
