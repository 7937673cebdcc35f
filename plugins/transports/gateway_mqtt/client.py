"""One connection to an MQTT server: paho's client, driven by the event loop.

paho makes the packets, connects, subscribes and keeps the connection alive. The source and the sink keep what is in
flight, since a gateway has its own storage and retries: so the packets of messages are handled here, in methods that
paho calls. Three things are better that way, too: a PUBREC is sent when its message is safe, not when it arrives; a
text with U+FEFF, which MQTT allows (section 1.5.4), does not end the connection; and an event needs less CPU.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anyio
from gateway_transport.connection import Rejected
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.subscribeoptions import SubscribeOptions

from .binding import Malformed, Properties, Publish, reason_string
from .reasons import FAILURE, TAKEN_OVER, is_lasting, said_in, words
from .rivals import Closed, TakenOver
from .server_config import MqttConfig, WillConfig
from .stream import Stream, connect

_OK = MQTTErrorCode.MQTT_ERR_SUCCESS
_MALFORMED = MQTTErrorCode.MQTT_ERR_PROTOCOL
_UNACKNOWLEDGED_3 = 65_535
MOST_PACKET_BYTES = 268_435_460
"""The largest packet there can be (MQTT 5 section 2.1.4)."""
_SENT = paho.MQTTMessageInfo(0)
MISC_S = 1.0
"""How often paho looks whether the connection is alive, in seconds."""
CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server said when it took the connection (MQTT 5 section 3.2.2.3)."""

    session_present: bool = False
    receive_maximum: int = _UNACKNOWLEDGED_3
    max_packet_bytes: int = MOST_PACKET_BYTES
    max_qos: int = 2
    retains: bool = True
    shares: bool = True
    session_expiry_s: int | None = None


class MqttClient(paho.Client):
    """A client that connects once. Everything is called on the event loop's thread.

    `received`      is called with each message, and must not raise.
    `acknowledged`  is called with the packet identifier, the reason code and the Reason String of what was published.
    `drained`       is called when all is written.
    `limits`        the server's, once it is connected.
    `arrived`       counts the messages that came, `unsettled` those that wait for their acknowledgement.
    """

    def __init__(
        self,
        options: MqttConfig,
        client_id: str,
        *,
        clean: bool,
        received: Callable[[Publish], None] | None = None,
        acknowledged: Callable[[int, int, str], None] | None = None,
        session_expiry_s: int = 0,
        receive_maximum: int | None = None,
        drained: Callable[[], None] | None = None,
    ) -> None:
        self._is_5 = options.version == "5"
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if self._is_5 else clean,
            protocol=paho.MQTTv5 if self._is_5 else paho.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self._options = options
        self._clean = clean
        self._received = received
        self._acknowledged = acknowledged
        self._drained = drained
        self._expiry_s = session_expiry_s
        self._most_received = receive_maximum
        self._events: asyncio.AbstractEventLoop
        self._stream: Stream | None = None
        self._paused = False
        self._writing = self._waits_to_write = False
        self._misc: asyncio.TimerHandle | None = None
        self._suback: asyncio.Future[list[int]] | None = None
        self._connack: asyncio.Future[None] | None = None
        self._end: asyncio.Future[None] | None = None
        self.arrived = self.unsettled = 0
        self.limits = Limits()
        self.username = options.username or (None if options.password is None else "")
        self.password = options.password
        self.on_connect = self._on_connack
        self.on_disconnect = self._on_end
        self.on_subscribe = self._on_suback
        self.on_socket_open = self._on_open
        self.on_socket_close = self._on_close
        self.on_socket_register_write = self._on_write
        if options.will is not None:
            self._set_will(options.will)

    def _set_will(self, will: WillConfig) -> None:
        properties: PahoProperties | None = None
        if self._is_5 and will.delay_s:
            properties = PahoProperties(PacketTypes.WILLMESSAGE)  # type: ignore[no-untyped-call]
            properties.WillDelayInterval = will.delay_s
        self.will_set(will.topic, will.payload.encode(), will.qos, will.retain, properties)

    # -- life -------------------------------------------------------------------------------------------------------

    async def open(self, tls: ssl.SSLContext | None) -> None:
        """Connects and logs in. Raises `Rejected` if the server refuses us for good, else `OSError`."""
        loop = self._events = asyncio.get_running_loop()
        self._connack, self._end = loop.create_future(), loop.create_future()
        limit = self._options.connect_timeout_s
        host, port = self._options.host_and_port
        try:
            with anyio.fail_after(limit):
                self._stream = await connect(host, port, tls)
                if self._is_5:
                    properties = PahoProperties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
                    properties.SessionExpiryInterval = self._expiry_s
                    if self._most_received is not None:
                        properties.ReceiveMaximum = self._most_received
                    self.connect(host, port, self._options.keep_alive_s, clean_start=self._clean, properties=properties)
                else:
                    self.connect(host, port, self._options.keep_alive_s)
                self._misc = loop.call_later(MISC_S, self._look)
                await self._connack
        except TimeoutError:
            raise OSError(f"no answer within {limit:g} s") from None

    async def subscribed(self, filters: Sequence[str], qos: int, retain_handling: int) -> None:
        """Subscribes. Raises `Rejected` if the server refuses a filter, or grants less than `qos`."""
        assert self._end is not None
        if self._end.done():
            await self.ended()
        self._suback = self._events.create_future()
        if self._is_5:
            options = SubscribeOptions(qos=qos, retainHandling=retain_handling)
            self.subscribe([(name, options) for name in filters])
        else:
            self.subscribe([(name, qos) for name in filters])
        with anyio.move_on_after(self._options.connect_timeout_s):
            granted = await self._suback
            if len(granted) != len(filters):
                raise OSError(f"the server answered {len(granted)} of {len(filters)} subscriptions")
            for name, code in zip(filters, granted, strict=True):
                if code >= FAILURE:
                    raise self._refused(code, f"the subscription to {name} is refused: {words(code)}")
                if code < qos:
                    text = f"the server sends {name} with QoS {code} only, so events could get lost"
                    raise Rejected(f"{text}; set `qos: {code}` to allow that" if code == 0 else f"{text}; set `qos`")
            return
        raise OSError("no answer to the subscription")

    async def forget(self, filters: Sequence[str]) -> None:
        """Ends subscriptions that the session still has."""
        if filters:
            self.unsubscribe(list(filters))

    async def ended(self) -> None:
        """Returns when the connection has ended; raises `OSError` with the reason unless we ended it."""
        assert self._end is not None
        await asyncio.shield(self._end)

    async def emptied(self, quiet_s: float) -> None:
        """Returns when all is acknowledged, and the server has answered a probe after that and sent nothing more for so
        many seconds. Raises `OSError` if the connection breaks."""
        before = -1
        while self.arrived != before:
            await self._until(lambda: not self.unsettled and not self._paused)
            before = self.arrived
            self._send_pingreq()
            await self._until(lambda: not self._ping_t)
            await anyio.sleep(quiet_s)
            await self._until(lambda: True)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while self.socket() is not None:
            if holds():
                return
            await anyio.sleep(0.02)
        raise OSError("the connection broke")

    async def close(self, end_session: bool = False) -> None:
        """Says goodbye and closes; the server keeps the session unless `end_session`. The will is not published. It
        waits until the server closes, too: a server may drop acknowledgements that it has not read yet when the next
        connection takes over the session."""
        if self._end is not None and not self._end.done() and self._stream is not None:
            properties: PahoProperties | None = None
            if end_session:
                properties = PahoProperties(PacketTypes.DISCONNECT)  # type: ignore[no-untyped-call]
                properties.SessionExpiryInterval = 0
            self.disconnect(properties=properties)
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_S):
                await asyncio.wait([self._end])
                await self._stream.ended()
        self._drop()

    def _drop(self) -> None:
        if self._misc is not None:
            self._misc.cancel()
            self._misc = None
        if self._stream is not None:
            self._sock_close()
            self._detach(self._stream)
            self._stream.abort()
            self._stream = None
        for future in (self._connack, self._suback, self._end):
            if future is not None and not future.done():
                future.cancel()
            elif future is not None and not future.cancelled():
                future.exception()  # it need not have been looked at

    # -- what paho calls -------------------------------------------------------------------------------------------

    def _create_socket(self) -> Any:
        return self._stream

    def _on_open(self, client: object, data: object, sock: Any) -> None:
        self._events.add_reader(sock.fileno(), self._read)

    def _on_close(self, client: object, data: object, sock: Any) -> None:
        self._detach(sock)

    def _detach(self, sock: Any) -> None:
        if (number := sock.fileno()) >= 0:
            self._events.remove_reader(number)
            self._events.remove_writer(number)

    def _on_write(self, client: object, data: object, sock: Any) -> None:
        if not self._writing:
            self._writing = True
            self._events.call_soon(self._write)

    def _on_connack(self, client: object, data: object, flags: Any, reason: Any, properties: Any) -> None:
        assert self._connack is not None
        if self._connack.done():
            return
        if reason.value >= FAILURE:
            self._connack.set_exception(self._refused(reason.value, words(reason.value, said_in(properties))))
            return
        self.limits = Limits(
            flags.session_present,
            getattr(properties, "ReceiveMaximum", _UNACKNOWLEDGED_3),
            getattr(properties, "MaximumPacketSize", MOST_PACKET_BYTES),
            getattr(properties, "MaximumQoS", 2),
            bool(getattr(properties, "RetainAvailable", 1)),
            bool(getattr(properties, "SharedSubscriptionAvailable", 1)),
            getattr(properties, "SessionExpiryInterval", None),
        )
        self._connack.set_result(None)

    def _refused(self, code: int, text: str) -> Exception:
        return Rejected(text) if is_lasting(code) else OSError(text)

    def _on_suback(self, client: object, data: object, mid: int, reasons: Any, properties: Any) -> None:
        if self._suback is not None and not self._suback.done():
            self._suback.set_result([reason.value for reason in reasons])

    def _on_end(self, client: object, data: object, flags: Any, reason: Any, properties: Any) -> None:
        error: OSError | None = None
        if flags.is_disconnect_packet_from_server:
            kind = TakenOver if reason.value == TAKEN_OVER else OSError
            error = kind(f"the server closed the connection: {words(reason.value, said_in(properties))}")
        elif reason.value > FAILURE:
            error = OSError(f"the connection broke: {words(reason.value)}")
        elif reason.value == FAILURE:
            error = Closed("the connection broke")
        for future in (self._connack, self._suback, self._end):
            if future is not None and not future.done():
                if error is None and future is self._end:
                    self._end.set_result(None)
                else:
                    future.set_exception(error or OSError("the connection was closed"))

    # -- the packets of messages -----------------------------------------------------------------------------------

    def _handle_publish(self) -> MQTTErrorCode:
        head = self._in_packet
        try:
            message = Publish(head["command"], bytes(head["packet"]), self._is_5)
        except Malformed:
            return _MALFORMED
        if self._connack is None or not self._connack.done():
            return _MALFORMED  # nothing comes before CONNACK (MQTT 5 section 3.2)
        if self._received is not None:
            self.arrived += 1
            self.unsettled += message.qos > 0
            self._received(message)
        return _OK

    def _handle_pubrel(self) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        if len(packet) < 2:
            return _MALFORMED
        return self._send_pubcomp(packet[0] << 8 | packet[1])

    def _handle_pubackcomp(self, cmd: Literal["PUBACK", "PUBCOMP"]) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        if len(packet) < 2:
            return _MALFORMED
        code = packet[2] if len(packet) > 2 else 0
        if self._acknowledged is not None:
            said = reason_string(bytes(packet), 3) if len(packet) > 4 else ""
            self._acknowledged(packet[0] << 8 | packet[1], code, said)
        return _OK

    def _handle_pubrec(self) -> MQTTErrorCode:
        packet = self._in_packet["packet"]
        if len(packet) > 2 and packet[2] >= FAILURE:  # the exchange ends here (MQTT 5 section 4.3.3)
            return self._handle_pubackcomp("PUBACK")
        if len(packet) < 2:
            return _MALFORMED
        return self._send_pubrel(packet[0] << 8 | packet[1])

    def settled(self, message: Publish) -> None:
        """Acknowledges a message: with PUBREC for QoS 2, after which the server forgets it, too."""
        self.unsettled -= 1
        if message.qos == 1:
            self._send_puback(message.mid)
        elif message.qos == 2:
            self._send_pubrec(message.mid)

    def send(self, mid: int, topic: bytes, payload: bytes, qos: int, retain: bool, properties: Properties) -> bool:
        """Publishes a message; returns False if the connection has ended. The caller keeps to the server's limits, and
        chooses a packet identifier that is not in use."""
        # paho packs any object that has `pack`, and notes at its own object that a message of QoS 0 is sent
        code = self._send_publish(mid, topic, payload, qos, retain, False, _SENT, properties)  # type: ignore[arg-type]
        return code == _OK

    @property
    def backlog(self) -> int:
        """The bytes that wait to be written."""
        return self._stream.backlog if self._stream is not None else 0

    # -- the socket ------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Reads nothing more until `resume`."""
        if not self._paused and self._stream is not None:
            self._paused = True
            self._events.remove_reader(self._stream.fileno())

    def resume(self) -> None:
        """Reads again."""
        if self._paused:
            self._paused = False
            if self._stream is not None and self._stream.fileno() >= 0:
                self._events.add_reader(self._stream.fileno(), self._read)
                self._events.call_soon(self._read)

    @property
    def paused(self) -> bool:
        """Whether nothing is read."""
        return self._paused

    def _read(self) -> None:
        stream = self._stream
        while stream is not None and not self._paused:
            self.loop_read()
            if self.socket() is None or not stream.pending:
                return

    def _write(self) -> None:
        self._writing = False
        if self.socket() is None or self._stream is None:
            return
        self.loop_write()
        stream = self._stream
        if self.socket() is None:
            return
        try:
            done = stream.flush()
        except OSError:
            self._loop_rc_handle(MQTTErrorCode.MQTT_ERR_CONN_LOST)
            return
        if done and self._waits_to_write:
            self._events.remove_writer(stream.fileno())
        elif not done and not self._waits_to_write:
            self._events.add_writer(stream.fileno(), self._write)
        self._waits_to_write = not done
        if done and self._drained is not None:
            self._drained()

    def _look(self) -> None:
        self._misc = self._events.call_later(MISC_S, self._look)
        self.loop_misc()
        if self._paused:  # the answer to a probe waits unread
            self._ping_t = 0.0
