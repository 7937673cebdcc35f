"""The socket that paho reads from and writes to."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Final

import anyio

CHUNK: Final = 16_384


class Stream:
    """A connected socket that reads ahead and gathers writes. paho reads a packet's head byte by byte, and writes
    packets one by one; here that takes no system call each."""

    __slots__ = ("_at", "_buffer", "_out", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self._at = 0
        self._out = bytearray()

    @property
    def pending(self) -> bool:
        """Whether there is something to read that the event loop does not know of."""
        if self._at < len(self._buffer):
            return True
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def recv(self, most: int) -> bytes:
        at = self._at
        if at >= len(self._buffer):
            self._buffer = self._sock.recv(CHUNK)
            at = 0
        self._at = at + most
        return self._buffer[at : at + most]

    def send(self, data: bytes | bytearray) -> int:
        self._out += data
        return len(data)

    @property
    def backlog(self) -> int:
        """The bytes that are not written yet."""
        return len(self._out)

    def flush(self) -> bool:
        """Writes what was gathered. Returns whether all is written; raises `OSError`."""
        if self._out:
            try:
                sent = self._sock.send(self._out)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            del self._out[:sent]
        return not self._out

    def fileno(self) -> int:
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        self._sock.setblocking(flag)

    def close(self) -> None:
        """Writes what was gathered, and sends nothing more. `abort` frees the socket."""
        try:
            self.flush()
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._sock.close()

    async def ended(self) -> None:
        """Returns once the other side has closed, too."""
        try:
            while self._sock.fileno() >= 0:
                await anyio.wait_readable(self._sock)
                if not self._sock.recv(CHUNK):
                    return
        except OSError:
            return

    def abort(self) -> None:
        """Closes the socket."""
        self._sock.close()


async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> Stream:
    """Connects, with TLS if there is a context. Raises `OSError`."""
    sock = await _connected(host, port)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
            await _shake_hands(sock)
    except BaseException:
        sock.close()
        raise
    return Stream(sock)


async def _connected(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label of the name is empty or too long
        raise OSError(f"{host} is no host name") from None
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as e:
            sock.close()
            failure = OSError(e.errno, os.strerror(e.errno)) if e.errno else e  # asyncio puts its own text around it
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError(f"{host} has no address")


async def _shake_hands(sock: ssl.SSLSocket) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await anyio.wait_readable(sock)
        except ssl.SSLWantWriteError:
            await anyio.wait_writable(sock)
        else:
            return
