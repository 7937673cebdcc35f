"""A connection to a server by AMQP 0-9-1, with callbacks: no task and no future for a message.

aiormq and aio-pika make a task or two futures for every message, and need the message id to be unique; both cost more
than all the rest of an event's way. So this is a small client of our own on pamqp's frames. It knows what a source and
a sink need: one connection with a few channels, each with one consumer or with confirms.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import pamqp.frame
from pamqp import commands as amqp
from pamqp.base import Frame
from pamqp.header import ProtocolHeader

from gateway_core.contract.one_line import one_line

from . import faults, wire
from .faults import RabbitFault
from .login import Login, client_properties
from .wire import Content

FRAME_MAX = 131_072
CLOSE_S = 2.0
_WRITE_BYTES = 1 << 20

_DELIVER, _RETURN, _ACK, _NACK = 0x003C003C, 0x003C0032, 0x003C0050, 0x003C0078


class Channel:
    """A channel of a connection. The owner sets the callbacks: `delivered(content)`, `confirmed(tag, multiple, ok)`,
    `returned(code, text, content)`. If the server closes the channel or cancels its consumer, the connection ends."""

    def __init__(self, link: Link, number: int) -> None:
        self._link = link
        self.number = number
        self.delivered: Callable[[Content], None] | None = None
        self.confirmed: Callable[[int, bool, bool], None] | None = None
        self.returned: Callable[[int, str, Content], None] | None = None
        self.probe = False
        self._replies: deque[asyncio.Future[Frame]] = deque()
        self._content: Content | None = None
        self._return: tuple[int, str] | None = None
        self._parts: list[bytes] = []
        self._missing = 0
        self._closed: RabbitFault | None = None

    async def call(self, method: Frame) -> Any:
        """Calls a method; returns the server's answer. Raises `RabbitFault`."""
        if fault := self._closed or self._link.fault:
            raise fault
        reply: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._replies.append(reply)
        self._link.write(pamqp.frame.marshal(method, self.number))
        return await reply

    async def close(self) -> None:
        """Closes the channel. Raises `RabbitFault`."""
        if self._closed is None and self._link.fault is None:
            await self.call(amqp.Channel.Close(200, "", 0, 0))
        self._link.forget(self)

    def fail(self, fault: RabbitFault) -> None:
        """Ends all calls."""
        self._closed = fault
        while self._replies:
            if not (reply := self._replies.popleft()).done():
                reply.set_exception(fault)

    # -- frames -------------------------------------------------------------------------------------------------------

    def method(self, payload: bytes) -> None:
        index = int.from_bytes(payload[:4], "big")
        if index == _DELIVER:
            tag, redelivered, exchange, key = wire.delivery(payload)
            self._content = Content(exchange=exchange, routing_key=key, delivery_tag=tag, redelivered=redelivered)
        elif index in (_ACK, _NACK):
            if self.confirmed is not None:
                self.confirmed(int.from_bytes(payload[4:12], "big"), payload[12] & 1 == 1, index == _ACK)
        else:
            self._rare(index, payload)

    def _rare(self, index: int, payload: bytes) -> None:
        frame: Any = parsed(payload, self.number)
        if index == _RETURN:
            self._content = Content(exchange=frame.exchange, routing_key=frame.routing_key)
            self._return = frame.reply_code, frame.reply_text
        elif isinstance(frame, amqp.Channel.Close):
            fault = faults.of_close(frame.reply_code, frame.reply_text)
            self._link.write(pamqp.frame.marshal(amqp.Channel.CloseOk(), self.number))
            self.fail(fault)
            self._link.forget(self)
            if not self.probe:
                self._link.fail(fault)
        elif isinstance(frame, amqp.Basic.Cancel):
            self._link.fail(RabbitFault("the server cancelled the consumer: the queue was deleted or has moved"))
        elif isinstance(frame, amqp.Channel.Flow):
            self._link.write(pamqp.frame.marshal(amqp.Channel.FlowOk(frame.active), self.number))
        elif self._replies:
            reply = self._replies.popleft()
            if not reply.done():
                reply.set_result(frame)

    def header(self, payload: bytes) -> None:
        if self._content is None:
            raise ValueError("a content header without a method")
        self._missing = wire.read_header(payload, self._content)
        if not self._missing:
            self._complete(b"")

    def body(self, payload: bytes) -> None:
        self._missing -= len(payload)
        if self._missing > 0:
            self._parts.append(payload)
        elif self._missing < 0 or self._content is None:
            raise ValueError("a body is longer than announced")
        elif self._parts:
            self._parts.append(payload)
            whole, self._parts = b"".join(self._parts), []
            self._complete(whole)
        else:
            self._complete(payload)

    def _complete(self, body: bytes) -> None:
        content, self._content = self._content, None
        assert content is not None
        content.body = body
        if self._return is not None:
            (code, text), self._return = self._return, None
            if self.returned is not None:
                self.returned(code, text, content)
        elif self.delivered is not None:
            self.delivered(content)


class Link(asyncio.Protocol):
    """See the module's docstring. `over` is set when the connection has ended; `fault` says why, None before.
    `blocked` is the server's reason for not reading what is published (RabbitMQ's `connection.blocked`), None if it
    reads. `takes` is False while it is blocked, or more is written than the network takes; `on_taking` is called when
    that has passed. While it is `paused`, nothing is read; `pauses` counts how often it was."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._out: list[bytes] = []
        self._channels: dict[int, Channel] = {}
        self._steps: asyncio.Queue[Frame | None] | None = asyncio.Queue()
        self._heard = self._written = False
        self._silent = 0
        self._beat: asyncio.TimerHandle | None = None
        self._close_ok = self._loop.create_future()
        self._frame_max = FRAME_MAX
        self.over = asyncio.Event()
        self.fault: RabbitFault | None = None
        self.blocked: str | None = None
        self.takes = True
        self.on_taking: Callable[[], None] | None = None
        self._full = False
        self.paused = False
        self.pauses = 0
        self.version = ""

    @property
    def body_max(self) -> int:
        """The most bytes in the payload of a frame."""
        return self._frame_max - wire.OVERHEAD

    # -- opening and closing ------------------------------------------------------------------------------------------

    @staticmethod
    async def open(login: Login) -> Link:
        """A connection to the server. Raises `RabbitFault`. The caller limits the time."""
        loop = asyncio.get_running_loop()
        hostname = (login.server_hostname or login.host) if login.tls is not None else None
        try:
            _, link = await loop.create_connection(
                Link, login.host, login.port, ssl=login.tls, server_hostname=hostname
            )
        except (OSError, ssl.SSLError) as e:
            raise faults.of_network(e) from e
        try:
            await link._handshake(login)
        except BaseException:
            link.abort()
            raise
        return link

    async def _handshake(self, login: Login) -> None:
        self.write(ProtocolHeader().marshal())
        start = await self._step(amqp.Connection.Start)
        properties: Any = start.server_properties or {}
        self.version = f"{properties.get('product', '')} {properties.get('version', '')}".strip()
        mechanism = "EXTERNAL" if login.username is None else "PLAIN"
        if mechanism not in (offered := str(start.mechanisms)).split():
            raise RabbitFault(f"the server has no login by {mechanism}, only by {one_line(offered)}", 403, True)
        response = "" if login.username is None else f"\0{login.username}\0{login.password or ''}"
        self._send(
            amqp.Connection.StartOk(client_properties(login.name), mechanism, response, "en_US"),
        )
        tune = await self._step(amqp.Connection.Tune)
        self._frame_max = min(tune.frame_max or FRAME_MAX, FRAME_MAX)
        heartbeat = min(filter(None, (login.heartbeat_s, tune.heartbeat)), default=0) if login.heartbeat_s else 0
        self._send(amqp.Connection.TuneOk(tune.channel_max, self._frame_max, heartbeat))
        self._send(amqp.Connection.Open(login.vhost))
        await self._step(amqp.Connection.OpenOk)
        self._steps = None
        if heartbeat:
            self._beat = self._loop.call_later(heartbeat / 2, self._tick, heartbeat / 2)

    async def _step(self, kind: type[Frame]) -> Any:
        assert self._steps is not None
        frame: Any = await self._steps.get()
        if frame is None:
            raise self.fault or RabbitFault("the connection has ended")
        if isinstance(frame, amqp.Connection.Close):
            raise faults.of_login(frame.reply_code, frame.reply_text)
        if not isinstance(frame, kind):
            raise RabbitFault(f"the server sent {frame.name} while the connection was opened")
        return frame

    async def channel(self) -> Channel:
        """A new channel. Raises `RabbitFault`."""
        number = next(n for n in count(1) if n not in self._channels)
        channel = self._channels[number] = Channel(self, number)
        await channel.call(amqp.Channel.Open())
        return channel

    def forget(self, channel: Channel) -> None:
        self._channels.pop(channel.number, None)

    async def close(self) -> None:
        """Closes the connection; what was written before arrives. Never raises."""
        if self.fault is None and self._transport is not None and not self._transport.is_closing():
            self._send(amqp.Connection.Close(200, "bye", 0, 0))
            self._flush()
            await asyncio.wait((self._close_ok,), timeout=CLOSE_S)
        self.abort()

    def abort(self) -> None:
        """Ends the connection at once."""
        self.fail(RabbitFault("closed"))

    def fail(self, fault: RabbitFault) -> None:
        """Ends the connection, and everything that waits for it, with this fault. Only the first one counts."""
        if self.fault is not None:
            return
        self._flush()
        self.fault = fault
        if self._beat is not None:
            self._beat.cancel()
        for channel in self._channels.values():
            channel.fail(fault)
        self.over.set()
        if self._steps is not None:
            self._steps.put_nowait(None)
        if not self._close_ok.done():
            self._close_ok.set_result(None)
        if self._transport is not None:
            if fault.code is None:
                self._transport.abort()
            else:
                self._transport.close()  # what was written arrives, unless the server reads nothing any more
                self._loop.call_later(CLOSE_S, self._transport.abort)

    # -- the transport ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._rest.startswith(b"AMQP"):
            self.fail(RabbitFault("the server does not speak AMQP 0-9-1", None, True))
        elif self._steps is not None and exc is None:
            self.fail(RabbitFault("the server closed the connection while it was opened"))
        else:
            self.fail(faults.of_network(exc) if exc is not None else RabbitFault("the connection was lost"))

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._rest:
            data = self._rest + data
        try:
            self._rest = data[self._frames(data) :]
        except Exception as e:  # pamqp raises many kinds for bytes that make no sense
            self._rest = b""
            self.fail(RabbitFault(f"the server sent what is not AMQP: {one_line(e) or type(e).__name__}"))

    def _frames(self, data: bytes) -> int:
        """Handles all whole frames; returns where the rest begins."""
        at, end = 0, len(data)
        unpack, channels = wire.FRAME.unpack_from, self._channels
        while end - at >= wire.OVERHEAD:
            kind, number, size = unpack(data, at)
            if kind == 65 and self._steps is not None:
                return at  # "AMQP": the server tells which protocol it speaks, and closes
            stop = at + 7 + size
            if size > self._frame_max:
                raise ValueError(f"a frame of {size} bytes")
            if stop >= end:
                break
            if data[stop] != wire.FRAME_END:
                raise ValueError("a frame without its end")
            payload = data[at + 7 : stop]
            at = stop + 1
            if (channel := channels.get(number)) is not None:
                if kind == wire.BODY:
                    channel.body(payload)
                elif kind == wire.METHOD:
                    channel.method(payload)
                elif kind == wire.HEADER:
                    channel.header(payload)
            elif number == 0 and kind == wire.METHOD:
                self._method(payload)
            if self.fault is not None:
                return end
        return at

    def _method(self, payload: bytes) -> None:
        frame: Any = parsed(payload, 0)
        if self._steps is not None:
            self._steps.put_nowait(frame)
        elif isinstance(frame, amqp.Connection.Close):
            self._send(amqp.Connection.CloseOk())
            self.fail(faults.of_close(frame.reply_code, frame.reply_text))
        elif isinstance(frame, amqp.Connection.CloseOk):
            if not self._close_ok.done():
                self._close_ok.set_result(None)
        elif isinstance(frame, amqp.Connection.Blocked | amqp.Connection.Unblocked):
            self.blocked = one_line(frame.reason) if isinstance(frame, amqp.Connection.Blocked) else None
            self._takes()

    # -- reading ------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Reads nothing more until `resume`. Calls get no answers meanwhile, and the end of the connection is
        noticed later."""
        if not self.paused and self._transport is not None and not self._transport.is_closing():
            self.paused = True
            self.pauses += 1
            self._transport.pause_reading()

    def resume(self) -> None:
        """Reads again."""
        if self.paused:
            self.paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    # -- writing ------------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._full = True
        self._takes()

    def resume_writing(self) -> None:
        self._full = False
        self._takes()

    def _takes(self) -> None:
        self.takes = self.blocked is None and not self._full
        if self.takes and self.on_taking is not None:
            self.on_taking()

    def _send(self, method: Frame) -> None:
        self.write(pamqp.frame.marshal(method, 0))

    def write(self, data: bytes) -> None:
        """Sends bytes at the end of this turn of the loop, together with others."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self.fault is None and self._transport is not None and not self._transport.is_closing():
            self._written = True
            self._transport.write(b"".join(out))

    def _tick(self, period_s: float) -> None:
        """AMQP 0-9-1 section 4.2.7: a peer that was silent for two intervals is gone."""
        self._silent = 0 if self._heard or self.paused else self._silent + 1
        if self._silent >= 4:
            self.fail(RabbitFault(f"the server was silent for {period_s * self._silent:g} s"))
            return
        if not self._written:
            self.write(wire.PING)
        self._heard = self._written = False
        self._beat = self._loop.call_later(period_s, self._tick, period_s)


def parsed(payload: bytes, channel: int) -> Frame:
    """A method's frame. Raises `PAMQPException`."""
    data = wire.FRAME.pack(wire.METHOD, channel, len(payload)) + payload + b"\xce"
    return pamqp.frame.unmarshal(data)[2]  # type: ignore[return-value]
