"""The servers at which the gateway delivers: subscribers, bridges' sinks, dead letters, and what they do wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from zlib import crc32

from .decoding import BATCH
from .history import Arrived, Heard, Partial, Refused, Replied
from .network import END, Connection, Endpoint
from .plan import Fault

if TYPE_CHECKING:
    from .world import World

GARBAGE = (
    b"",
    b"hello\r\n",
    b"HTTP/1.1 \r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n",
    b"HTTP/9.9 200 OK\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
)


def head(status: int, *headers: bytes, body: bytes = b"") -> bytes:
    """A whole answer."""
    lines = [b"HTTP/1.1 %d Simulated" % status, *headers]
    if status >= 200 and status != 204:
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def poisonous(id: str) -> bool:
    """Whether the faults `poison` and `parts` are about this event."""
    return crc32(id.encode()) % 7 == 0


def parts(amount: int, ids: tuple[str, ...]) -> tuple[bytes, tuple[int, ...]]:
    """The body of a 207, and what it says of each event."""
    if amount == 1:
        return b"<multistatus/>", (0,) * len(ids)
    statuses = tuple(amount if poisonous(id) else 200 for id in ids)
    items = [{"id": id, "status": status} for id, status in zip(ids, statuses, strict=True) if status]
    return json.dumps({"items": items[::-1]}).encode(), statuses


class Server:
    """One server. It answers 202, unless a fault says otherwise."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.faults: dict[str, Fault] = {}
        """Those that last, by kind."""
        self.connections: list[Session] = []
        self.hanging: list[int] = []
        """The numbers of events that get no answer."""
        self._count = 0

    def accept(self) -> Endpoint | str:
        """See `network.Host`."""
        now = self.world.scheduler.now
        for kind in ("vanish", "refuse"):
            if kind in self.faults:
                self.world.add(Refused(now, self.name))
                return kind
        self._count += 1
        session = Session(self, self._count - 1)
        self.connections.append(session)
        certificates = self.world.certificates
        return session if certificates is None else certificates.server(session, self.faults)

    def begin(self, fault: Fault) -> None:
        """A fault of this server begins."""
        self.faults[fault.kind] = fault
        if fault.kind == "hang":
            self.hanging.append(fault.amount)
        if fault.kind == "refuse":
            for session in list(self.connections):
                session.reset()
        elif fault.kind in ("stall", "vanish"):
            until = self.world.end_of(fault)
            for session in self.connections:
                session.connection.stall(until)

    def over(self, fault: Fault) -> None:
        """It is over, unless another one of its kind began meanwhile."""
        if fault.kind == "hang":
            self.hanging.remove(fault.amount)
        if self.faults.get(fault.kind) is fault:
            del self.faults[fault.kind]
            if fault.kind == "silent":
                for session in list(self.connections):
                    session.leave()


class Session:
    """A connection of the gateway's."""

    connection: Connection

    def __init__(self, server: Server, number: int) -> None:
        self._server = server
        self._world = server.world
        self._number = number
        self._buffer = bytearray()
        self._read = 0  # bytes of this request
        self._head: tuple[tuple[tuple[str, str], ...], int] | None = None
        self._closed = False

    # -- network.Endpoint -------------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """See `network.Endpoint`."""
        self.connection = connection
        connection.heard = self._heard
        if (fault := self._server.faults.get("stall")) is not None:
            connection.stall(self._world.end_of(fault))

    def received(self, data: bytes) -> None:
        """See `network.Endpoint`."""
        if self._closed:
            return
        cut = self._server.faults.get("cut-request")
        if cut is not None and self._read + len(data) > cut.amount:
            self._read += len(data)
            self.reset()
            return
        self._read += len(data)
        self._buffer += data
        while self._request():
            pass

    def ended(self, how: str) -> None:
        """See `network.Endpoint`."""
        self._close()
        if how == END:
            self.connection.end()

    # -- requests ---------------------------------------------------------------------------------------------------

    def _request(self) -> bool:
        """Takes a whole request from what was read, if there is one."""
        if self._closed:
            return False
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            pairs = tuple((n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines[1:]))
            del self._buffer[: end + 4]
            self._head = pairs, int(dict(pairs).get("content-length", "0"))
        headers, size = self._head
        if len(self._buffer) < size:
            return False
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._head, self._read = None, len(self._buffer)
        number = self._world.arrivals()
        now = self._world.scheduler.now
        self._world.add(Arrived(now, number, self._server.name, self._number, headers, body, self.connection.life))
        batch = dict(headers).get("content-type", "").startswith(BATCH)
        ids = tuple(one["id"] for one in json.loads(body)) if batch else (dict(headers).get("ce-id", ""),)
        self._answer(number, ids, batch)
        return True

    def _answer(self, number: int, ids: tuple[str, ...], batch: bool) -> None:
        faults = self._server.faults
        if "silent" in faults:
            self._replied(number, None, "silent")
        elif any(id.partition(".")[0] == f"e{hanging}" for hanging in self._server.hanging for id in ids):
            self._replied(number, None, "hang")
        elif "late" in faults:
            self._world.scheduler.after(faults["late"].amount / 1000, self._write, number, ids, batch)
        else:
            self._world.scheduler.after(0.0005, self._write, number, ids, batch)

    def _write(self, number: int, ids: tuple[str, ...], batch: bool) -> None:
        if self._closed:
            self._replied(number, None, "gone")
            return
        faults, connection = self._server.faults, self.connection
        status, headers, how = 202, [], ""
        body = b""
        statuses: tuple[int, ...] = ()
        if "parts" in faults and batch:
            status, (body, statuses) = 207, parts(faults["parts"].amount, ids)
        if "poison" in faults and any(map(poisonous, ids)):
            status, body, statuses = faults["poison"].amount, b"", ()
        if "status" in faults:
            status, body, statuses = faults["status"].amount, b"", ()
        if "mixed" in faults:
            status = 400 if crc32(ids[0].encode()) % 2 else 503
        if "retry-after" in faults:
            status, how, body, statuses = 503, "retry-after", b"", ()
            headers.append(b"retry-after: %d" % faults["retry-after"].amount)
        if "close" in faults and number % 2:
            how = "announced"
            headers.append(b"connection: close")
        data = head(status, *headers, body=body)
        if "interim" in faults:
            data = head(102) * faults["interim"].amount + data
        if "garbage" in faults:
            connection.send(GARBAGE[faults["garbage"].amount])
            self._replied(number, None, "garbage")
            if faults["garbage"].amount % 2:
                self.leave()
        elif "cut-answer" in faults and faults["cut-answer"].amount < len(data):
            connection.send(data[: faults["cut-answer"].amount])
            self._replied(number, None, "cut-answer")
            self.leave() if number % 2 else self.reset()
        elif "pieces" in faults:
            self._drip(data, max(1, faults["pieces"].amount), number, status, how, statuses)
        else:
            connection.send(data)
            connection.mark(number)
            if "more" in faults:
                connection.send(b"x" * faults["more"].amount)
            self._replied(number, status, how, statuses)
            if "close" in faults and how != "announced":
                self.leave()

    def _drip(self, data: bytes, size: int, number: int, status: int, how: str, statuses: tuple[int, ...]) -> None:
        if self._closed:
            self._replied(number, None, "gone")
            return
        self.connection.send(data[:size])
        if len(data) > size:
            self._world.scheduler.after(0.02, self._drip, data[size:], size, number, status, how, statuses)
        else:
            self.connection.mark(number)
            self._replied(number, status, how, statuses)

    def _replied(self, number: int, status: int | None, how: str = "", statuses: tuple[int, ...] = ()) -> None:
        self._world.add(Replied(self._world.scheduler.now, number, status, how, statuses))

    def _heard(self, number: int) -> None:
        self._world.add(Heard(self._world.scheduler.now, number))

    # -- the end ----------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Ends the connection after what was sent."""
        self._close()
        self.connection.end()

    def reset(self) -> None:
        """Breaks it."""
        self._close()
        self.connection.reset()

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self in self._server.connections:
            self._server.connections.remove(self)
        if self._head is not None or self._buffer or self._read:
            self._world.add(Partial(self._world.scheduler.now, self._server.name, self._read))
