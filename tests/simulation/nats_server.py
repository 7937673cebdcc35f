"""A simulated NATS server: the client protocol, and one JetStream stream with durable pull consumers.

Facts: the client protocol's page of the NATS documentation; JetStream's API as nats-server 2.10 has it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .configs import STREAM
from .network import Connection
from .queue_ends import QueueClient, QueueServer
from .queue_plan import NATS

if TYPE_CHECKING:
    from .world import World

_API = "$JS.API."
_MADE = "2027-01-15T08:00:00Z"
_NONE = {"code": 404}


def _api_error(code: int, description: str) -> dict[str, Any]:
    return {"error": {**_NONE, "err_code": code, "description": description}}


@dataclass
class _Pending:
    """A message that a consumer was sent and has not acknowledged."""

    deadline: float
    delivered: int


@dataclass
class _Pull:
    """A request for messages."""

    client: _Client
    inbox: str
    left: int
    until: float
    heartbeat_s: float
    heard: float = 0.0


@dataclass(eq=False)
class Consumer:
    """A durable pull consumer with explicit acknowledgements."""

    server: NatsServer
    config: dict[str, Any]
    created: str
    next: int
    """The sequence number of the message that it is sent next."""
    sent: int = 0
    floor: int = 0
    pending: dict[int, _Pending] = field(default_factory=dict)
    again: deque[int] = field(default_factory=deque)
    counts: dict[int, int] = field(default_factory=dict)
    pulls: deque[_Pull] = field(default_factory=deque)
    gone: bool = False

    @property
    def name(self) -> str:
        return str(self.config["durable_name"])

    @property
    def ack_wait_s(self) -> float:
        return float(self.config["ack_wait"]) / 1e9

    @property
    def unsent(self) -> int:
        """Messages that it was never sent."""
        return len(self.server.messages) + 1 - self.next

    def info(self) -> dict[str, Any]:
        """As JetStream's API has it."""
        return {
            "type": "io.nats.jetstream.api.v1.consumer_info_response",
            "stream_name": STREAM,
            "name": self.name,
            "created": self.created,
            "config": self.config,
            "delivered": {"consumer_seq": self.sent, "stream_seq": self.next - 1},
            "ack_floor": {"consumer_seq": self.floor, "stream_seq": self.floor},
            "num_ack_pending": len(self.pending),
            "num_redelivered": sum(count > 1 for count in self.counts.values()),
            "num_waiting": len(self.pulls),
            "num_pending": self.unsent,
        }

    def pump(self) -> None:
        """Sends what was asked for."""
        if self.gone:
            return
        now, server = self.server.world.scheduler.now, self.server
        while self.pulls:
            pull = self.pulls[0]
            if not pull.client.open or pull.left <= 0 or pull.until <= now:
                self.pulls.popleft()
                continue
            sequence = self._choose()
            if sequence is None:
                return
            count = self.counts[sequence] = self.counts.get(sequence, 0) + 1
            self.pending[sequence] = _Pending(now + self.ack_wait_s, count)
            server.world.scheduler.after(self.ack_wait_s + 0.001, self._look)
            self.sent += 1
            pull.left -= 1
            pull.heard = now
            subject, payload = server.messages[sequence - 1]
            stamp = server.world.now_ns()
            reply = f"$JS.ACK.{STREAM}.{self.name}.{count}.{sequence}.{self.sent}.{stamp}.{self.unsent}"
            pull.client.message(pull.inbox, payload, reply, subject=subject)

    def _choose(self) -> int | None:
        while self.again:
            sequence = self.again.popleft()
            if sequence in self.pending or sequence <= self.floor or sequence not in self.counts:
                continue
            return sequence
        if self.unsent <= 0 or len(self.pending) >= int(self.config["max_ack_pending"]):
            return None
        self.next += 1
        return self.next - 1

    def _look(self) -> None:
        now = self.server.world.scheduler.now
        for sequence in [s for s, waits in self.pending.items() if waits.deadline <= now]:
            del self.pending[sequence]
            self.again.append(sequence)
        self.pump()

    def acknowledge(self, sequence: int, how: bytes) -> None:
        """`how` is what the client says of the message."""
        waits = self.pending.get(sequence)
        if how.startswith(b"+WPI"):
            if waits is not None:
                waits.deadline = self.server.world.scheduler.now + self.ack_wait_s
                self.server.world.scheduler.after(self.ack_wait_s + 0.001, self._look)
        elif how.startswith(b"-NAK"):
            if waits is not None:
                del self.pending[sequence]
                self.again.append(sequence)
        else:
            self.pending.pop(sequence, None)
            self.counts.pop(sequence, None)
            self.floor = min([*self.counts, self.next], default=1) - 1
        self.pump()

    def alive(self, pull: _Pull) -> None:
        """Heartbeats, and the end of a request's time."""
        if self.gone or pull not in self.pulls or not pull.client.open:
            return
        now = self.server.world.scheduler.now
        if pull.until <= now:
            self.pulls.remove(pull)
            left = {"Nats-Pending-Messages": str(pull.left), "Nats-Pending-Bytes": "0"}
            pull.client.status(pull.inbox, "408 Request Timeout", left)
            return
        if pull.heartbeat_s and now - pull.heard >= pull.heartbeat_s:
            pull.client.status(pull.inbox, "100 Idle Heartbeat", {})
            pull.heard = now
        next = min(pull.until, (pull.heard + pull.heartbeat_s) if pull.heartbeat_s else pull.until)
        self.server.world.scheduler.at(max(next, now + 0.001), self.alive, pull)


class NatsServer(QueueServer["_Client"]):
    """With the stream `STREAM`."""

    def __init__(self, world: World) -> None:
        super().__init__(world, NATS, _Client)
        self.messages: list[tuple[str, bytes]] = []
        self.consumers: dict[str, Consumer] = {}
        self._made = 0

    def publish(self, subject: str, payload: bytes) -> None:
        """The stream stores a message."""
        self.messages.append((subject, payload))
        for consumer in self.consumers.values():
            consumer.pump()

    def delete_consumers(self) -> int:
        """An administrator deletes all consumers. Returns how many there were."""
        found = list(self.consumers.values())
        self.consumers.clear()
        for consumer in found:
            consumer.gone = True
            for pull in consumer.pulls:
                if pull.client.open:
                    pull.client.status(pull.inbox, "409 Consumer Deleted", {})
        return len(found)

    def waiting(self) -> str:
        """What consumers have still to be sent or to acknowledge, "" if nothing."""
        if not self.consumers and self.messages:
            return "NATS has no consumer"
        for consumer in self.consumers.values():
            count = len(consumer.pending) + len(consumer.again) + consumer.unsent
            if count:
                return f"{count} messages wait in the NATS consumer {consumer.name}"
        return ""

    # -- JetStream's API --------------------------------------------------------------------------------------------

    def ask(self, client: _Client, subject: str, payload: bytes, reply: str) -> None:
        """A message to a subject of the server's own."""
        tokens = subject.split(".")
        if subject.startswith("$JS.ACK."):
            consumer = self.consumers.get(tokens[3])
            if consumer is not None:
                consumer.acknowledge(int(tokens[5]), payload)
            return
        what = ".".join(tokens[2:5])
        if what.startswith("CONSUMER.MSG.NEXT"):
            self._next(client, tokens[-1], payload, reply)
            return
        answer: dict[str, Any]
        match tokens[2:4]:
            case ["STREAM", "INFO"]:
                answer = self._stream()
            case ["CONSUMER", "INFO"]:
                found = self.consumers.get(tokens[5])
                answer = found.info() if found is not None else _api_error(10014, "consumer not found")
            case ["CONSUMER", "CREATE" | "DURABLE"]:
                answer = self._create(json.loads(payload)["config"])
            case _:
                self.world.broken(f"the NATS server was asked {subject}")
                return
        client.message(reply, json.dumps(answer).encode(), "")

    def _stream(self) -> dict[str, Any]:
        config = {
            "name": STREAM,
            "subjects": ["in.>"],
            "retention": "limits",
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "discard": "old",
            "storage": "file",
            "num_replicas": 1,
            "duplicate_window": 120_000_000_000,
        }
        count = len(self.messages)
        state = {
            "messages": count,
            "bytes": count,
            "first_seq": 1 if count else 0,
            "last_seq": count,
            "consumer_count": len(self.consumers),
            "first_ts": _MADE,
            "last_ts": _MADE,
        }
        kind = "io.nats.jetstream.api.v1.stream_info_response"
        return {"type": kind, "config": config, "created": _MADE, "state": state}

    def _create(self, config: dict[str, Any]) -> dict[str, Any]:
        name = config["durable_name"]
        if name not in self.consumers:
            policy = config.get("deliver_policy", "all")
            first = len(self.messages) + 1 if policy == "new" else int(config.get("opt_start_seq", 1))
            self._made += 1
            created = datetime.fromtimestamp(self.world.now_ns() / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            stamp = f"{created}.{self._made:09d}Z"
            self.consumers[name] = Consumer(self, {"max_deliver": -1, **config}, stamp, first, floor=first - 1)
        return self.consumers[name].info()

    def _next(self, client: _Client, name: str, payload: bytes, reply: str) -> None:
        consumer = self.consumers.get(name)
        if consumer is None:
            client.status(reply, "503", {})
            return
        asked = json.loads(payload)
        now = self.world.scheduler.now
        heartbeat_s = asked.get("idle_heartbeat", 0) / 1e9
        pull = _Pull(client, reply, asked["batch"], now + asked.get("expires", 0) / 1e9, heartbeat_s, now)
        consumer.pulls.append(pull)
        consumer.pump()
        consumer.alive(pull)


class _Client(QueueClient[NatsServer]):
    def __init__(self, server: NatsServer) -> None:
        super().__init__(server)
        self._subscriptions: dict[str, str] = {}  # sid -> subject
        self._payload: Callable[[bytes], None] | None = None
        self._size = 0

    @property
    def open(self) -> bool:
        """Whether anything can be sent."""
        return self.connection is not None

    def opened(self, connection: Connection) -> None:
        super().opened(connection)
        info = {
            "server_id": "N1",
            "server_name": "n1",
            "version": "2.10.0",
            "go": "go1.22",
            "host": "10.0.0.2",
            "port": 4222,
            "headers": True,
            "max_payload": 1 << 20,
            "jetstream": True,
            "proto": 1,
            "client_id": 1,
        }
        self.send(f"INFO {json.dumps(info)}\r\n".encode())

    # -- from the client --------------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        self.buffer += data
        while self.open:
            if self._payload is not None:
                if len(self.buffer) < self._size + 2:
                    return
                body, self.buffer = self.buffer[: self._size], self.buffer[self._size + 2 :]
                take, self._payload = self._payload, None
                take(body)
                continue
            line, end, rest = self.buffer.partition(b"\r\n")
            if not end:
                return
            self.buffer = rest
            self._line(line.decode().split())

    def _line(self, words: list[str]) -> None:
        match words:
            case ["PING"]:
                self.send(b"PONG\r\n")
            case ["PONG"] | ["CONNECT", *_]:
                pass
            case ["SUB", subject, sid] | ["SUB", subject, _, sid]:
                self._subscriptions[sid] = subject
            case ["UNSUB", sid, *_]:
                self._subscriptions.pop(sid, None)
            case ["PUB", subject, size]:
                self._expect(int(size), lambda body: self._published(subject, body, ""))
            case ["PUB", subject, reply, size]:
                self._expect(int(size), lambda body: self._published(subject, body, reply))
            case ["HPUB", subject, head, size]:
                self._expect(int(size), lambda body: self._published(subject, body[int(head) :], ""))
            case ["HPUB", subject, reply, head, size]:
                self._expect(int(size), lambda body: self._published(subject, body[int(head) :], reply))
            case _:
                self.server.world.broken(f"the NATS server got {' '.join(words)!r}")

    def _expect(self, size: int, take: Callable[[bytes], None]) -> None:
        self._size, self._payload = size, take

    def _published(self, subject: str, payload: bytes, reply: str) -> None:
        if subject.startswith("$JS."):
            self.server.ask(self, subject, payload, reply)

    # -- to the client ----------------------------------------------------------------------------------------------

    def message(self, inbox: str, payload: bytes, reply: str, subject: str = "") -> None:
        """Sends a message to whoever has subscribed to the inbox; `subject` if it shows another one."""
        sid = self._sid(inbox)
        if sid is not None:
            parts = ["MSG", subject or inbox, sid, *([reply] if reply else []), str(len(payload))]
            self.send(" ".join(parts).encode() + b"\r\n" + payload + b"\r\n")

    def status(self, inbox: str, status: str, headers: dict[str, str]) -> None:
        """Sends a message without data that says how a request is doing."""
        sid = self._sid(inbox)
        if sid is not None:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"NATS/1.0 {status}\r\n{lines}\r\n".encode()
            self.send(f"HMSG {inbox} {sid} {len(head)} {len(head)}\r\n".encode() + head + b"\r\n")

    def _sid(self, inbox: str) -> str | None:
        for sid, subject in self._subscriptions.items():
            if subject == inbox or (subject.endswith(".*") and inbox.rpartition(".")[0] == subject[:-2]):
                return sid
        return None
