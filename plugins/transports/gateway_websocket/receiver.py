"""The receiving end of a connection: events to the intake, acknowledgements back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

import anyio
from gateway_access.gate import Gate
from gateway_transport.handover import DRAIN_S, Handover
from gateway_transport.not_an_event import handle, what_to_do, wrapped

from gateway_core.contract.authenticator import Forbidden
from gateway_core.contract.clock import Clock
from gateway_core.contract.errors import NotDelivered, Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Intake

from .config import WebSocketSourceConfig
from .socket import WebSocket
from .subprotocol import ACK, CONTENT_TYPE, acks, nack

MOST_BYTES = 16 * 1024 * 1024
"""About the most bytes of a connection's events under way. Beyond that, nothing more is read from it."""
MOST_UNREAD = 1024 * 1024
"""About the most bytes of answers that wait for a sender which reads none. Beyond that, it is not read either."""
_DENIED = (401, 403, 429)
_RULE = "CloudEvents WebSockets binding 1.0.2, section 1.5"


class Held:
    """What all connections of a source hold together: about `most` bytes. `waiting`: those that read on once there is
    room."""

    __slots__ = ("most", "used", "waiting")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self.waiting: set[Receiver] = set()

    def release(self, size: int) -> None:
        """So many bytes are safe, or dropped."""
        self.used -= size
        if self.waiting and self.used <= self.most // 2:
            waiting, self.waiting = self.waiting, set()
            for receiver in waiting:
                receiver.read_on()


class Receiver:
    """The handler of one connection (`socket.Handler`). `number` is that of the connection in its source.

    With the acknowledging subprotocol, the sender sends again what was not acknowledged when the connection ends. So
    nothing of it is kept. With the plain one, what was read is kept until it is safe.
    """

    def __init__(
        self,
        owner: str,
        address: str,
        options: WebSocketSourceConfig,
        clock: Clock,
        read: Callable[[Message], Event],
        intake: Intake,
        socket: WebSocket,
        number: int,
        gate: Gate | None = None,
        held: Held | None = None,
    ) -> None:
        self.socket = socket
        self.acknowledges = socket.subprotocol == ACK
        self.open = True
        socket.patient = not self.acknowledges
        self._gate = gate
        self._options = options
        self._read = read
        self._clock = clock
        self._address = address
        self._count = 0
        self._sizes: dict[int, int] = {}
        self._bytes = 0
        self._safe: list[int] = []  # to be acknowledged
        self._id = ""
        self._handover: Handover[int] = Handover(
            owner,
            address,
            clock,
            self._settled,
            partition=number,
            give_back=self._refused,
            gives_back=self._is_given_back,
        )
        self._handover.intake = intake
        self._intake = intake
        self._most = options.max_unacknowledged
        self._all = held or Held(options.max_held_bytes)

    @property
    def held(self) -> int:
        """Events that were read and are not safe."""
        return self._handover.held

    # -- the connection's handler -------------------------------------------------------------------------------------

    def message(self, data: bytes, text: bool) -> None:
        self._count = number = self._count + 1
        self._sizes[number] = size = len(data)
        self._bytes += size
        self._all.used += size
        if (refusal := self._too_much(len(data))) is not None:
            self._refuse(number, refusal)
        else:
            self._take(number, data, text)
        if self._handover.held >= self._most or self._bytes >= MOST_BYTES or self.socket.unread >= MOST_UNREAD:
            self.socket.hold()
        elif self._all.used >= self._all.most:
            self._all.waiting.add(self)
            self.socket.hold()

    def _take(self, number: int, data: bytes, text: bool) -> None:
        try:
            if not text:
                raise Refused("an event in JSON must be a text message; this one is binary", status=415, rule=_RULE)
            event = self._read(Message([CONTENT_TYPE], data))
        except Refused as e:
            self._not_an_event(number, data, e)
        else:
            if (refusal := self._refusal(event)) is not None:
                self._refuse(number, refusal)
            else:
                self._handover.take(event, number)

    def _too_much(self, size: int) -> Refused | None:
        """Why a message of so many bytes may not come now, None if it may."""
        who, request = self.socket.sender, self.socket.request
        if self._gate is None or who is None or request is None:
            return None
        return self._gate.check_message(who, request, size)

    def _refusal(self, event: Event, *, read: bool = True) -> Refused | None:
        """Why the sender may not send this event, None if it may. With `read` false, the event only stands for what
        came."""
        who, request = self.socket.sender, self.socket.request
        if self._gate is None or who is None or request is None:
            return None
        return self._gate.admit(who, request, (event,)) if read else self._gate.admit_unread(who, request, event)

    def flushed(self) -> None:
        self.read_on()

    def closed(self, reason: str) -> None:
        self.open = False
        if self.acknowledges:
            self._handover.drop()
            self._sizes.clear()
            size, self._bytes = self._bytes, 0
            self._all.release(size)
        self._all.waiting.discard(self)

    # -- results ------------------------------------------------------------------------------------------------------

    def _not_an_event(self, number: int, data: bytes, error: Refused) -> None:
        what = what_to_do(self._options.not_an_event, error)
        if self.acknowledges or what == "drop":
            self._refuse(number, error)
            return
        self._id = self._id or uuid4().hex
        event = wrapped(
            id=f"{self._id}-{number}",
            source=self._address,
            type=self._options.wrap_type,
            data=data,
            received_ns=self._clock.now_ns(),
        )
        if (refusal := self._refusal(event, read=what == "wrap")) is not None:
            self._refuse(number, refusal)
        else:
            handle(self._options, self._handover, event, number, error)

    def _refuse(self, number: int, error: Refused) -> None:
        """Nothing of it comes in."""
        self._intake.refuse(error)
        self._given_back(number, error)

    def _refused(self, number: int, error: Refused | NotDelivered) -> None:
        """Takes back what the intake refused. What the policies of the broker refuse, only the intake knows."""
        who, request = self.socket.sender, self.socket.request
        if isinstance(error, Forbidden) and self._gate is not None and who is not None and request is not None:
            self._gate.refused(request, who, error)
        self._given_back(number, error)

    def _is_given_back(self, error: Refused | NotDelivered) -> bool:
        """Whether an event is refused to its sender. Those of a sender who gets no answers are kept in the dead letter,
        but for what this sender may not send."""
        denied = isinstance(error, Refused) and error.status in _DENIED and self._options.listen is not None
        return self.acknowledges or denied

    def _given_back(self, number: int, error: Refused | NotDelivered) -> None:
        if self.acknowledges and self.socket.is_open:
            self._acknowledge()  # answers come in order where they can
            self.socket.send(nack(number, error))
        self._release(number)

    def _settled(self, number: int) -> None:
        if self.acknowledges:
            if not self._safe:
                asyncio.get_running_loop().call_soon(self._acknowledge)
            self._safe.append(number)
        self._release(number)

    def _acknowledge(self) -> None:
        safe, self._safe = self._safe, []
        if safe and self.socket.is_open:
            for message in acks(safe):
                self.socket.send(message)

    def _release(self, number: int) -> None:
        size = self._sizes.pop(number, 0)
        self._bytes -= size
        self._all.release(size)
        self.read_on()

    def read_on(self) -> None:
        """Reads again, if there is room."""
        if not self._most or not self.socket.holding or self.socket.unread:
            return
        if self._all.used > self._all.most // 2:
            self._all.waiting.add(self)
            return
        if self._handover.held <= self._most // 2 and self._bytes <= MOST_BYTES // 2:
            self.socket.resume()

    async def drain(self) -> None:
        """Reads nothing more; returns when what can be safe is, and is acknowledged."""
        if self.open:
            self.socket.hold()
            self._most = 0  # so that no answer makes it read again
        if not self.acknowledges:
            with anyio.move_on_after(DRAIN_S):
                while self._handover.held:  # noqa: ASYNC110 - once in the life of a source
                    await anyio.sleep(0.01)
        await self._handover.drain()
        self._acknowledge()
