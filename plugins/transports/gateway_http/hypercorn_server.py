"""HTTP/2 next to HTTP/1.1: a connection that begins with HTTP/2 is passed to Hypercorn, all others stay with the native
engine. So HTTP/1.1 has one parser and one place for its limits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway_serving.tls import ServerTls

from .config import HttpSourceConfig
from .listener import HttpListener
from .protocol import Connection

if TYPE_CHECKING:
    from .http2 import Http2Engine

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class HypercornListener(HttpListener):
    """Serves the paths over HTTP/1.1 and HTTP/2."""

    def __init__(self, options: HttpSourceConfig, tls: ServerTls | None, owner: str) -> None:
        super().__init__(options, tls, owner)
        from .http2 import Http2Engine

        if tls is not None:
            tls.offer(["h2", "http/1.1"])
        self.engine: Http2Engine = Http2Engine(self)

    async def stop(self) -> None:
        await self.engine.stop()
        await super().stop()

    def _connection(self) -> asyncio.Protocol:
        return Http1Or2Connection(self, self.engine)


class Http1Or2Connection(Connection):
    """HTTP/1.1, unless the TLS handshake or the first bytes select HTTP/2."""

    __slots__ = ("_begin", "_engine")

    def __init__(self, listener: HttpListener, engine: Http2Engine) -> None:
        super().__init__(listener)
        self._engine = engine
        self._begin: bytes | None = b""  # the data so far, while it may be HTTP/2

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        secured = transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() == "h2" and not self._deaf:
            self._switch(b"")

    def data_received(self, data: bytes) -> None:
        if self._begin is None:
            super().data_received(data)
            return
        begin = self._begin + data
        if begin.startswith(PREFACE) and not self._deaf:
            self._switch(begin)
        elif PREFACE.startswith(begin):
            if not self._begin:
                self._between = False
                self._since = self._listener.now
            self._begin = begin
        else:
            self._begin = None
            self._between = True
            super().data_received(begin)

    def _switch(self, data: bytes) -> None:
        transport, self._transport = self._transport, None
        self._listener.lost(self)
        if transport is not None:
            self._engine.take_over(transport, data)
