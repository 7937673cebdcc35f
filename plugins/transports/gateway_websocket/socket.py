"""One WebSocket connection (RFC 6455): the protocol of the library websockets, driven by callbacks, without a task or a
queue per connection."""

from __future__ import annotations

import asyncio
import logging
import select
from typing import Any, Protocol, cast

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol as WireProtocol
from websockets.protocol import State

from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity
from gateway_core.contract.one_line import one_line

TEXT, BINARY, CONT, PING = Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING
GOING_AWAY, POLICY, TOO_BIG, TRY_LATER = 1001, 1008, 1009, 1013
"""Status codes of a close (RFC 6455 section 7.4.1)."""
CLOSE_S = 5.0
"""How long the other end may take to close, in seconds."""
MOST_FRAGMENTS = 4096
"""The most fragments of a message."""
MOST_PINGS = 1000
"""The most pings of an other end that does not read what it is sent."""
_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR

SILENT = logging.getLogger("tidegate.websocket.library")
"""For the library, which logs every connection."""
SILENT.disabled = True


class Handler(Protocol):
    """What an open connection is for."""

    def message(self, data: bytes, text: bool) -> None:
        """A whole message came in: text, which is valid UTF-8, or binary."""

    def flushed(self) -> None:
        """Everything that was sent is with the operating system."""

    def closed(self, reason: str) -> None:
        """The connection has ended."""


class Timing(Protocol):
    """The options that a connection needs."""

    @property
    def ping_interval_s(self) -> float: ...

    @property
    def ping_timeout_s(self) -> float: ...


class WebSocket(asyncio.Protocol):
    """A connection. Subclasses do the opening handshake, and set the `handler`."""

    def __init__(self, protocol: WireProtocol, timing: Timing, handshake_s: float) -> None:
        self.protocol = protocol
        self.handler: Handler | None = None
        self.writable = True
        """Whether what was sent last went to the operating system at once."""
        self.reason = ""
        """Why it ended."""
        self.sender: Identity | None = None
        """Who opened it, if an authenticator asked."""
        self.request: Message | None = None
        """The opening handshake in which the sender proved itself."""
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._timing = timing
        self._period = min(timing.ping_interval_s, timing.ping_timeout_s, handshake_s, CLOSE_S) / 2
        self._timer: asyncio.TimerHandle | None = None
        self._heard = self._loop.time()
        self._pinged: float | None = None
        self._deadline: float | None = self._heard + handshake_s
        self.holding = False
        """Whether nothing is read."""
        self.patient = True
        """Whether what the other end has sent is still of use when it has left."""
        self._pings = 0  # while nothing can be written
        self._flushing = False
        self._deaf = False
        self._parts: list[bytes] = []  # of a fragmented message
        self._part_bytes = 0
        self._is_text = False

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self.protocol.state is State.OPEN

    @property
    def unfinished(self) -> int:
        """Bytes of a message that has not come in completely."""
        return len(self.protocol.reader.buffer) + self._part_bytes

    @property
    def subprotocol(self) -> str:
        """The agreed subprotocol, "" for none."""
        return self.protocol.subprotocol or ""

    # -- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(1, 0)  # so that `pause_writing` means: not all of it is sent
        self._timer = self._loop.call_later(self._period, self._tick)

    def data_received(self, data: bytes) -> None:
        self._heard, self._pinged = self._loop.time(), None
        self._read(data)

    def eof_received(self) -> None:
        self.protocol.receive_eof()
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.protocol.receive_eof()
        self.reason = self.reason or self._why(exc)
        self.writable = False
        handler, self.handler = self.handler, None
        if not self.ended.done():
            self.ended.set_result(None)
        if handler is not None:
            handler.closed(self.reason)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._pings = 0
        if self.handler is not None:
            self.handler.flushed()

    # -- in -----------------------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        protocol = self.protocol
        if protocol.state is State.CLOSED:
            return
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Frame):
                self._frame(event)
            else:
                self._handshake(event)
        self._write()

    def _handshake(self, event: Any) -> None:
        """A request or a response came in."""

    def _frame(self, frame: Frame) -> None:
        opcode = frame.opcode
        if opcode is TEXT or opcode is BINARY:
            if frame.fin:
                self._message(bytes(frame.data), opcode is TEXT)
            else:
                self._parts, self._is_text = [bytes(frame.data)], opcode is TEXT
                self._part_bytes = len(frame.data)
        elif opcode is CONT:
            self._parts.append(bytes(frame.data))
            self._part_bytes += len(frame.data)
            if frame.fin:
                parts, self._parts, self._part_bytes = self._parts, [], 0
                self._message(b"".join(parts), self._is_text)
            elif len(self._parts) >= MOST_FRAGMENTS:
                self.fail(TOO_BIG, "too many fragments")
        elif opcode is PING and not self.writable:  # the answers would fill the memory
            self._pings += 1
            if self._pings > MOST_PINGS:
                self.fail(POLICY, "too many pings")

    def _message(self, data: bytes, text: bool) -> None:
        if self.handler is None or self._deaf:
            return
        if text and not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                self.fail(1007, "a text message is not UTF-8")
                return
        self.handler.message(data, text)

    def hold(self) -> None:
        """Reads nothing more until `resume`, unless it is closing: then it waits for the other end to close."""
        if self.holding or self._deadline is not None or self._transport is None:
            return
        if not self._transport.is_closing():
            self.holding = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Reads again after `hold`."""
        if self.holding and self._transport is not None:
            self.holding = False
            self._heard, self._pinged = self._loop.time(), None
            if not self._transport.is_closing():
                self._transport.resume_reading()

    @property
    def unread(self) -> int:
        """Bytes that the operating system has not taken yet, because the other end does not read; 0 in most cases."""
        return 0 if self.writable or self._transport is None else self._transport.get_write_buffer_size()

    # -- out ----------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Sends a text message soon, together with others; `Handler.flushed` follows. The connection must be open."""
        self.protocol.send_text(data)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._write()
        lost = self._transport is None or self._transport.is_closing()
        if self.writable and self.handler is not None and not lost:
            self.handler.flushed()

    def _write(self) -> None:
        if not (writes := self.protocol.data_to_send()):
            return
        transport = self._transport
        if self._deadline is None and self.protocol.close_expected():
            self._deadline = self._loop.time() + CLOSE_S
            self.resume()  # to see the other end close
        if transport is None or transport.is_closing():
            return
        if data := b"".join(writes):
            transport.write(data)
        if not writes[-1]:  # the library's mark for the end
            if transport.can_write_eof():
                try:
                    transport.write_eof()
                except (OSError, RuntimeError):
                    transport.abort()
            else:
                transport.close()

    # -- ends ---------------------------------------------------------------------------------------------------------

    def close(self, code: int, reason: str = "") -> None:
        """Begins to close an open connection. What still comes is ignored."""
        self._deaf = True
        if self.is_open:
            self.protocol.send_close(code, reason)
            self._write()

    def fail(self, code: int, reason: str) -> None:
        """Closes because of what the other end did. What still comes is ignored."""
        self._deaf = True
        self._parts, self._part_bytes = [], 0
        if self.is_open:
            self.reason = self.reason or f"{code} {reason}"
            self.protocol.fail(code, reason)
            self._write()

    def abort(self) -> None:
        """Closes immediately."""
        if self._transport is not None:
            self._transport.abort()

    async def finish(self) -> None:
        """Returns when it has ended."""
        await asyncio.shield(self.ended)

    def _why(self, exc: Exception | None) -> str:
        received, error = self.protocol.close_rcvd, self.protocol.parser_exc
        if received is not None:
            return one_line(f"closed by the other end: {received.code} {received.reason}".rstrip())
        if error is not None and not isinstance(error, EOFError):
            return one_line(error)
        return one_line(exc) if exc is not None else "the connection was lost"

    def _tick(self) -> None:
        now = self._loop.time()
        self._timer = self._loop.call_later(self._period, self._tick)
        if self._deadline is not None:
            if now > self._deadline:
                self.reason = self.reason or "the handshake took too long"
                self.abort()
        elif self.holding:
            if not self.patient and self._has_left():  # else each new connection of it would add to what is held
                self.reason = "the other end left while nothing was read"
                self.abort()
        elif not self.is_open:
            return
        elif self._pinged is not None:
            if now - self._pinged > self._timing.ping_timeout_s:
                self.reason = f"no answer to a ping within {self._timing.ping_timeout_s:g} s"
                self.abort()
        elif now - self._heard >= self._timing.ping_interval_s:
            self._pinged = now
            self.protocol.send_ping(b"")
            self._write()

    def _has_left(self) -> bool:
        """Whether the other end has closed the connection. One that is not read does not report it."""
        found = self._transport.get_extra_info("socket") if self._transport is not None else None
        if found is None or found.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(found.fileno(), _LEFT)
        return bool(poll.poll(0))

    def _opened(self) -> None:
        self._deadline = None
