"""The sink `mqtt`: publishes each event, which is delivered once the server acknowledges it."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup
from gateway_options.client_tls import client_context
from gateway_options.template import name_of
from gateway_transport.connection import Connection, Rejected, lost
from gateway_transport.messages import writer

from gateway_core.contract.clock import Timer
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.outcome import unwritable

from .binding import Properties, binding, packet_size, properties
from .client import Limits, MqttClient
from .config import TOPIC, MqttSinkConfig
from .reasons import outcome, words

SWEEP_S = 0.25
"""How often attempts are looked at whose time has passed, in seconds."""
STOP_S = 10.0
BACKLOG = 1 << 20
"""While more bytes than this wait to be written, nothing is added to them."""
_NONE = Properties(b"\0")


class MqttSink:
    """`gateway_core.contract.interfaces.Sink`. Attempts wait for the connection, and for room in flight, until their
    time is over. What is in flight when the connection breaks is retried by the gateway."""

    def __init__(self, options: MqttSinkConfig, context: BuildContext) -> None:
        self._options = options
        self._clock = context.clock
        self._is_5 = options.version == "5"
        self._write = writer(options.codec, binding(options.version, context.traces), context)
        self._topic = name_of(options.topic, TOPIC)
        self._client_id = f"{options.client_id or f'tidegate-{context.owner}'}-{uuid4().hex[:8]}"
        self._tls: ssl.SSLContext | None = None
        if options.tls is not None and not context.offline:
            self._tls = client_context(options.tls, context.owner)
        self._connection = Connection(context.owner, f"MQTT at {options.url}", self._session)
        self._client: MqttClient | None = None  # while it is connected
        self._limits = Limits()
        self._room = 0
        self._waiting: deque[_Attempt] = deque()
        self._in_flight: dict[int, _Attempt] = {}
        self._mid = 0
        self._sweep: Timer | None = None
        self._idle: anyio.Event | None = None
        self._stopped = False
        self.in_flight = options.max_in_flight
        self.address = f"{options.url}/{options.visible('topic')}"

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Connects, and keeps trying while the server is down. Raises `StartError` if it rejects the credentials, or
        can't do what the config says."""
        await self._connection.start(tasks)

    def metrics(self) -> dict[str, float]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return lost("mqtt", self._connection.losses)

    async def stop(self) -> None:
        self._stopped = True
        try:
            for attempt in self._take_waiting():
                attempt.end(Outcome(False, retry=True, reason="the sink is stopping"))
            self._idle = anyio.Event()
            self._note_idle()
            with anyio.move_on_after(STOP_S):
                await self._idle.wait()
            await self._connection.stop()
        finally:
            self._lost("the sink has stopped")
            if self._sweep is not None:
                self._sweep.cancel()

    async def _session(self, connected: Callable[[], None]) -> None:
        options = self._options
        client = MqttClient(options, self._client_id, clean=True, acknowledged=self._acknowledged, drained=self._fill)
        try:
            await client.open(self._tls)
            self._limits = limits = client.limits
            if options.qos > limits.max_qos:
                raise Rejected(f"{words(0x9B)}: it takes {limits.max_qos} at most")
            if options.retain and not limits.retains:
                raise Rejected(words(0x9A))
            self._room = min(options.max_in_flight, limits.receive_maximum)
            self._client = client
            connected()
            self._fill()
            await client.ended()
        finally:
            self._client = None
            await client.close()
            self._lost(self._connection.error or "the connection was lost before the server acknowledged it")

    def _lost(self, reason: str) -> None:
        """Whether the server has what was in flight is unknown: the gateway decides when to send it again."""
        attempts, self._in_flight = list(self._in_flight.values()), {}
        if self._stopped:
            attempts += self._take_waiting()
        for attempt in attempts:
            attempt.end(Outcome(False, retry=True, reason=reason))

    def _take_waiting(self) -> list[_Attempt]:
        waiting, self._waiting = list(self._waiting), deque()
        return waiting

    # -- attempts ---------------------------------------------------------------------------------------------------

    def preview(self, event: Event) -> Message:
        """See `gateway_core.contract.capabilities.Previewing`."""
        message = self._write(event)
        message.url = f"{self._options.url}/{self._topic(event)}"
        if self._is_5:
            properties(message)
        else:
            message.headers = []
        return message

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            topic = self._topic(event).encode()
            message = self._write(event)
            packed = properties(message, self._options.expiry_s) if self._is_5 else _NONE
        except Refused as e:
            done(unwritable(e))
            return
        attempt = _Attempt(topic, message.body or b"", packed, self._clock.monotonic() + timeout_s, timeout_s, done)
        if self._stopped:
            attempt.end(Outcome(False, retry=True, reason="the sink has stopped"))
        elif self._client is None or self._waiting or self._is_full(self._client):
            self._waiting.append(attempt)
        else:
            self._publish(self._client, attempt)
        if self._sweep is None and (self._waiting or self._in_flight):
            self._sweep = self._clock.call_later(min(SWEEP_S, timeout_s), self._end_late)

    def _publish(self, client: MqttClient, attempt: _Attempt) -> None:
        most = self._limits.max_packet_bytes
        if (size := packet_size(attempt.topic, attempt.payload, len(attempt.packed))) > most:
            reason = f"{words(0x95)}: it has {size} bytes, and the server takes {most} at most"
            attempt.end(Outcome(False, code=0x95, reason=reason))
            return
        options, in_flight = self._options, self._in_flight
        mid = 0
        if options.qos:
            mid = self._mid % 65_535 + 1
            while mid in in_flight:
                mid = mid % 65_535 + 1
            self._mid = mid
            in_flight[mid] = attempt
        sent = client.send(mid, attempt.topic, attempt.payload, options.qos, options.retain, attempt.packed)
        if not options.qos:
            attempt.end(DELIVERED if sent else Outcome(False, retry=True, reason="the connection was lost"))

    def _is_full(self, client: MqttClient) -> bool:
        return len(self._in_flight) >= self._room or client.backlog > BACKLOG

    def _acknowledged(self, mid: int, code: int, said: str) -> None:
        attempt = self._in_flight.pop(mid, None)
        if attempt is None:
            return
        attempt.end(DELIVERED if code == 0 else outcome(code, said))
        if self._waiting:
            self._fill()
        self._note_idle()

    def _note_idle(self) -> None:
        if self._idle is not None and all(attempt.ended for attempt in self._in_flight.values()):
            self._idle.set()

    def _fill(self) -> None:
        while self._client is not None and self._waiting and not self._is_full(self._client):
            self._publish(self._client, self._waiting.popleft())

    def _end_late(self) -> None:
        """Ends the attempts whose time has passed. One in flight keeps its packet identifier until the server answers
        or the connection ends."""
        now = self._clock.monotonic()
        error = self._connection.error
        for attempt in self._in_flight.values():
            if attempt.deadline <= now:
                attempt.end(Outcome(False, retry=True, reason=f"no acknowledgement within {attempt.timeout_s:g} s"))
        if self._waiting:
            late = [attempt for attempt in self._waiting if attempt.deadline <= now]
            if late:
                self._waiting = deque(attempt for attempt in self._waiting if attempt.deadline > now)
            for attempt in late:
                text = error or f"no room within {attempt.timeout_s:g} s: the server acknowledges too slowly"
                attempt.end(Outcome(False, retry=True, reason=text))
        self._note_idle()
        self._sweep = None
        if any(not attempt.ended for attempt in self._in_flight.values()) or self._waiting:
            self._sweep = self._clock.call_later(SWEEP_S, self._end_late)


class _Attempt:
    """One event on its way."""

    __slots__ = ("_done", "deadline", "ended", "packed", "payload", "timeout_s", "topic")

    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        packed: Properties,
        deadline: float,
        timeout_s: float,
        done: Callable[[Outcome], None],
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.packed = packed
        self.deadline = deadline
        self.timeout_s = timeout_s
        self._done = done
        self.ended = False

    def end(self, outcome: Outcome) -> None:
        """Answers the attempt, once."""
        if not self.ended:
            self.ended = True
            self._done(outcome)
