"""An MQTT 5 server that does as it is told: it takes events, refuses them, is silent, or is down."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from gateway_core.contract.event import Event
from tests.mqtt.frames import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Frames,
    Published,
    mid_of,
    packet,
)


class ScriptedServer:
    """`gateway_testing.suites.ControllableRemote`. `reason` is the reason code of its acknowledgements, None for no
    acknowledgement. `connack` is the reason code of a connection, and `properties` those of the CONNACK packet."""

    def __init__(self, properties: bytes = b"", connack: int = 0) -> None:
        self.reason: int | None = 0
        self.said = b""
        self.published: list[Published] = []
        self.most_open = 0
        self._open: set[int] = set()
        self.answers: dict[int, bytes] = {}  # to packets of other types than PUBLISH, in place of the usual
        self._connack = bytes([0, connack, len(properties)]) + properties
        self._listener: socket.socket | None = None
        self._socks: list[socket.socket] = []
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]

    def __enter__(self) -> ScriptedServer:
        self.take()
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def events(self) -> list[Event]:
        found = []
        for message in list(self.published):
            attributes = dict(message.user)
            if message.content_type is not None:
                attributes["datacontenttype"] = message.content_type
            found.append(Event(attributes, message.payload))
        return found

    def take(self) -> None:
        self.reason = 0
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        self.reason = 0x87

    def fail(self) -> None:
        self.reason = 0x97

    def hang(self) -> None:
        self.reason = None

    def leave(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._socks.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                self._socks.append(sock)
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        frames = Frames()
        with contextlib.suppress(OSError), sock:
            while data := sock.recv(65536):
                for kind, flags, body in frames.feed(data):
                    if kind in self.answers:
                        sock.sendall(self.answers[kind])
                    elif kind == CONNECT:
                        sock.sendall(packet(CONNACK, self._connack))
                    elif kind == PUBLISH:
                        self._answer(sock, Published(flags, body))
                    elif kind == PUBREL:
                        self._open.discard(mid_of(body))
                        sock.sendall(packet(PUBCOMP, body[:2]))
                    elif kind == PINGREQ:
                        sock.sendall(packet(PINGRESP))
                    elif kind == DISCONNECT:
                        return

    def _answer(self, sock: socket.socket, message: Published) -> None:
        if message.mid:
            self._open.add(message.mid)
        self.most_open = max(self.most_open, len(self._open))
        if self.reason == 0:
            self.published.append(message)
        if self.reason is None or not message.qos:
            return
        if message.qos == 1 or self.reason >= 0x80:
            self._open.discard(message.mid)
        said = bytes([0x1F]) + struct.pack(">H", len(self.said)) + self.said if self.said else b""
        body = struct.pack(">HB", message.mid, self.reason) + bytes([len(said)]) + said
        sock.sendall(packet(PUBACK if message.qos == 1 else PUBREC, body))
