"""Those who send events to the gateway over HTTP, each on a connection of its own."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING
from urllib.parse import quote

from .history import Answered, Lingered, Sent
from .network import Connection
from .plan import Event, Fault, Send
from .scheduler import Later

if TYPE_CHECKING:
    from .world import World

WAIT_S = 60.0
PORT = 8080
NONSENSE = (
    b"",
    b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"POST /default HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\ncontent-length: 8\r\n\r\n",
    b"\x16\x03\x01\x02\x00" + bytes(300),
    b"POST /default HTTP/1.1\r\nhost: localhost\r\nce-id: nonsense\r\ncontent-length: 2\r\n\r\n{}",
    b"POST /default HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/cloudevents+json\r\n"
    b"content-length: 3\r\n\r\n{}{",
    b"POST /default HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
)


def request(send: Send) -> bytes:
    """The request's bytes (CloudEvents HTTP binding 1.0.2)."""
    headers = [b"POST /%s HTTP/1.1" % send.to.encode(), b"host: localhost"]
    if send.mode == "binary" and len(send.events) == 1:
        event = send.events[0]
        for name, value in event.attributes.items():
            if name == "datacontenttype":
                headers.append(b"content-type: " + value.encode())
            else:
                headers.append(f"ce-{name}: {quote(value, safe=' /:.-')}".encode())
        body = event.data
    elif send.mode == "structured" and len(send.events) == 1:
        headers.append(b"content-type: application/cloudevents+json")
        body = json.dumps(_document(send.events[0])).encode()
    else:
        headers.append(b"content-type: application/cloudevents-batch+json")
        body = json.dumps([_document(event) for event in send.events]).encode()
    headers.append(b"content-length: %d" % len(body))
    return b"\r\n".join(headers) + b"\r\n\r\n" + body


def _document(event: Event) -> dict[str, str]:
    return {**event.attributes, **({"data": event.data.decode()} if event.size else {})}


class Sender:
    """One connection's sends, one after the other."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._waiting: deque[tuple[int, int]] = deque()  # index of the send, attempt
        self._now: tuple[int, int] | None = None
        self._link: Link | None = None
        self._timer: Later | None = None
        self.next_fault: Fault | None = None

    @property
    def idle(self) -> bool:
        """Whether it has nothing left to do."""
        return self._now is None and not self._waiting

    def queue(self, send: int, attempt: int = 1) -> None:
        """A send is due."""
        self._waiting.append((send, attempt))
        self._next()

    def stall(self, until: float) -> None:
        """A fault: its bytes wait."""
        if self._link is not None and self._link.connection is not None:
            self._link.connection.stall(until)

    def _next(self) -> None:
        if self._now is None and self._waiting:
            self._now = self._waiting.popleft()
            self._timer = self._world.scheduler.after(WAIT_S, self._give_up)
            if self._link is not None and self._link.usable:
                self._write()
            else:
                self._link = Link(self)
                self._world.dial(PORT, self._world.spoken(self._link), f"sender {self._number}")

    def _write(self) -> None:
        assert self._now is not None
        assert self._link is not None
        assert self._link.connection is not None
        send, attempt = self._now
        data = request(self._world.plan.sends[send])
        fault, self.next_fault = self.next_fault, None
        now = self._world.scheduler.now
        if fault is not None and fault.kind == "sender-cut" and fault.amount < len(data):
            self._world.add(Sent(now, send, attempt, False))
            self._link.connection.send(data[: fault.amount])
            self._link.leave(reset=send % 2 == 0)
            self.lost("cut")
            return
        self._world.add(Sent(now, send, attempt, True))
        self._link.connection.send(data)
        if fault is not None and fault.kind == "sender-leave":
            self._link.leave(reset=False)
            self.lost("left")

    def opened(self) -> None:
        """The connection is open."""
        if self._now is not None:
            self._write()

    def answered(self, status: int, headers: dict[str, str], body: bytes, *, keep: bool) -> None:
        """A whole answer came."""
        if not keep and self._link is not None:
            self._link.leave(reset=False)
        if self._now is None:
            return
        send, attempt = self._now
        asked = headers.get("retry-after")
        wait = float(asked) if asked is not None and asked.isdigit() else None
        now = self._world.scheduler.now
        told = headers.get("tidegate-duplicate", "")
        firsts = tuple(int(position) for position in told.split(", ") if position)
        self._world.add(Answered(now, send, attempt, status, self._world.plain(body.decode(errors="replace")), firsts))
        self._done(again=status in (429, 503), wait=wait)

    def lost(self, why: str) -> None:
        """The connection ended without an answer."""
        if self._now is None:
            return
        send, attempt = self._now
        self._world.add(Answered(self._world.scheduler.now, send, attempt, None, why))
        self._done(again=True, wait=None)

    def _give_up(self) -> None:
        if self._link is not None:
            self._link.leave(reset=False)
        self.lost(f"no answer within {WAIT_S:g} s")

    def _done(self, *, again: bool, wait: float | None) -> None:
        assert self._now is not None
        assert self._timer is not None
        (send, attempt), self._now = self._now, None
        self._timer.cancel()
        if again and attempt < self._world.plan.sends[send].tries:
            self._world.later(min(wait or 1.0, 30.0), self.queue, send, attempt + 1)
        self._next()


class Link:
    """A sender's connection, and the answers that come on it."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._buffer = bytearray()
        self._over = False
        self.connection: Connection | None = None

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self.connection is not None and not self._over

    def leave(self, *, reset: bool) -> None:
        """Ends it."""
        self._over = True
        if self.connection is not None:
            self.connection.reset() if reset else self.connection.end()

    def opened(self, connection: Connection) -> None:
        """See `network.Endpoint`."""
        self.connection = connection
        if self._over:
            connection.end()
        else:
            self._sender.opened()

    def ended(self, how: str) -> None:
        """See `network.Endpoint`."""
        if not self._over:
            self._over = True
            if self.connection is not None:
                self.connection.end()
            self._sender.lost({"refuse": "refused", "reset": "reset"}.get(how, "closed"))

    def received(self, data: bytes) -> None:
        """See `network.Endpoint`."""
        if self._over:
            return
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        size = int(headers.get("content-length", "0"))
        if len(self._buffer) < end + 4 + size:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + size])
        del self._buffer[: end + 4 + size]
        status = int(lines[0].split(" ")[1])
        self._sender.answered(status, headers, body, keep=headers.get("connection") != "close")


class Stranger:
    """Sends nonsense, and leaves when the gateway does, or after `stays_s`."""

    def __init__(self, world: World, data: bytes, stays_s: float = 5.0) -> None:
        self._world = world
        self._data = data
        self._stays_s = stays_s
        self._over = False
        self._connection: Connection | None = None

    def opened(self, connection: Connection) -> None:
        """See `network.Endpoint`."""
        self._connection = connection
        connection.send(self._data)
        self._world.scheduler.after(self._stays_s, self._tired, self._world.scheduler.now)

    def received(self, data: bytes) -> None:
        """See `network.Endpoint`."""

    def ended(self, how: str) -> None:
        """See `network.Endpoint`."""
        self._leave()

    def _tired(self, since: float) -> None:
        if not self._over and self._stays_s > 5.0:
            self._world.add(Lingered(self._world.scheduler.now, since))
        self._leave()

    def _leave(self) -> None:
        if not self._over and self._connection is not None:
            self._over = True
            self._connection.end()
