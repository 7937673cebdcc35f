"""A simulated MQTT 5 server: sessions with subscriptions of QoS 1, and what waits in them (MQTT 5, section 4.1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .queue_ends import QueueClient, QueueServer
from .queue_plan import MQTT

if TYPE_CHECKING:
    from .world import World

_CONNECT, _CONNACK, _PUBLISH, _PUBACK = 1, 2, 3, 4
_SUBSCRIBE, _SUBACK, _UNSUBSCRIBE, _UNSUBACK = 8, 9, 10, 11
_PINGREQ, _PINGRESP, _DISCONNECT = 12, 13, 14
_TAKEN_OVER = 0x8E
_MOST_INFLIGHT = 65_535


def _variable(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _packet(kind: int, body: bytes, flags: int = 0) -> bytes:
    return bytes([kind << 4 | flags]) + _variable(len(body)) + body


def _short(value: int) -> bytes:
    return value.to_bytes(2, "big")


class _Reader:
    """The body of a packet."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def take(self, count: int) -> bytes:
        self.at += count
        return self.body[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def variable(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        return self.take(self.number(2)).decode()

    def properties(self) -> dict[int, int]:
        """Those with a number of a fixed size that the server needs: the session's expiry, and the receive maximum."""
        end = self.variable() + self.at
        found: dict[int, int] = {}
        while self.at < end:
            identifier = self.number(1)
            size = {0x11: 4, 0x27: 4, 0x21: 2, 0x22: 2}.get(identifier, 1)
            found[identifier] = self.number(size)
        return found


@dataclass
class Session:
    """What the server keeps for a client (MQTT 5 section 4.1)."""

    id: str
    filters: set[str] = field(default_factory=set)
    queue: deque[tuple[str, bytes]] = field(default_factory=deque)
    inflight: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    client: _Client | None = None
    next: int = 0

    def send(self) -> None:
        """Sends what may be sent."""
        client = self.client
        while client is not None and self.queue and len(self.inflight) < client.most:
            self.next = self.next % _MOST_INFLIGHT + 1
            if self.next in self.inflight:
                continue
            self.inflight[self.next] = self.queue.popleft()
            client.message(self.next, again=False)


class MqttServer(QueueServer["_Client"]):
    """Filters are topics without wildcards."""

    def __init__(self, world: World) -> None:
        super().__init__(world, MQTT, _Client)
        self.sessions: dict[str, Session] = {}

    @property
    def filters(self) -> set[str]:
        """All that is subscribed to now."""
        return {name for session in self.sessions.values() for name in session.filters}

    def publish(self, topic: str, payload: bytes) -> None:
        """A message for all sessions that have subscribed to its topic."""
        for session in self.sessions.values():
            if topic in session.filters:
                session.queue.append((topic, payload))
                session.send()

    def waiting(self, topics: Sequence[str]) -> str:
        """What waits in connected sessions that have one of these topics, or which of them no client reads; "" if
        nothing."""
        connected = [session for session in self.sessions.values() if session.client is not None]
        for topic in topics:
            found = [session for session in connected if topic in session.filters]
            if not found:
                return f"no client reads the MQTT topic {topic}"
            for session in found:
                if count := len(session.queue) + len(session.inflight):
                    return f"{count} messages wait in the MQTT session {session.id}"
        return ""


class _Client(QueueClient[MqttServer]):
    def __init__(self, server: MqttServer) -> None:
        super().__init__(server)
        self._session: Session | None = None
        self.most = _MOST_INFLIGHT

    def gone(self) -> None:
        super().gone()
        if self._session is not None and self._session.client is self:
            self._session.client = None

    def received(self, data: bytes) -> None:
        self.buffer += data
        while (packet := self._next()) is not None:
            self._take(*packet)

    def _next(self) -> tuple[int, _Reader] | None:
        """A whole packet."""
        length = shift = 0
        for at in range(1, min(5, len(self.buffer))):
            byte = self.buffer[at]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                end = at + 1 + length
                if len(self.buffer) < end:
                    return None
                head, body = self.buffer[0], self.buffer[at + 1 : end]
                self.buffer = self.buffer[end:]
                return head >> 4, _Reader(body)
        return None

    def _take(self, kind: int, body: _Reader) -> None:
        match kind:
            case _ if kind == _CONNECT:
                self._connect(body)
            case _ if kind == _SUBSCRIBE:
                self._subscribe(body)
            case _ if kind == _UNSUBSCRIBE:
                self._unsubscribe(body)
            case _ if kind == _PUBACK and self._session is not None:
                self._session.inflight.pop(body.number(2), None)
                self._session.send()
            case _ if kind == _PINGREQ:
                self.send(_packet(_PINGRESP, b""))
            case _ if kind == _DISCONNECT:
                self._disconnect(body)
            case _:
                self.server.world.broken(f"the MQTT server got a packet of kind {kind}")

    def _connect(self, body: _Reader) -> None:
        body.take(7)  # protocol name and version
        flags = body.number(1)
        body.number(2)
        given = body.properties()
        client_id = body.text()
        self.most = given.get(0x21, _MOST_INFLIGHT)
        sessions = self.server.sessions
        before = sessions.get(client_id)
        if before is not None and before.client is not None:
            before.client.take_over()
        if flags & 2 or before is None:
            sessions[client_id] = Session(client_id)
        session = self._session = sessions[client_id]
        session.client = self
        present = session is before
        self.send(_packet(_CONNACK, bytes([present, 0, 0])))
        if present:
            for mid in session.inflight:
                self.message(mid, again=True)
        session.send()

    def take_over(self) -> None:
        """Another client has connected with the same identifier (MQTT 5 section 3.1.4)."""
        self.send(_packet(_DISCONNECT, bytes([_TAKEN_OVER, 0])))
        self.finish()

    def _subscribe(self, body: _Reader) -> None:
        mid = body.number(2)
        body.properties()
        codes = []
        while body.at < len(body.body):
            name = body.text()
            codes.append(min(1, body.number(1) & 3))
            if self._session is not None:
                self._session.filters.add(name)
        self.send(_packet(_SUBACK, _short(mid) + b"\x00" + bytes(codes)))

    def _unsubscribe(self, body: _Reader) -> None:
        mid = body.number(2)
        body.properties()
        codes = []
        while body.at < len(body.body):
            name = body.text()
            found = self._session is not None and name in self._session.filters
            if found and self._session is not None:
                self._session.filters.discard(name)
            codes.append(0 if found else 0x11)
        self.send(_packet(_UNSUBACK, _short(mid) + b"\x00" + bytes(codes)))

    def _disconnect(self, body: _Reader) -> None:
        ends = False
        if len(body.body) > 1:
            body.take(1)
            ends = body.properties().get(0x11) == 0
        if ends and self._session is not None:
            self.server.sessions.pop(self._session.id, None)
        self.finish()

    def message(self, mid: int, *, again: bool) -> None:
        """Sends a message that is in flight."""
        assert self._session is not None
        topic, payload = self._session.inflight[mid]
        body = _short(len(topic)) + topic.encode() + _short(mid) + b"\x00" + payload
        self.send(_packet(_PUBLISH, body, (8 if again else 0) | 2))
