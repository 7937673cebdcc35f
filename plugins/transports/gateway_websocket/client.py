"""The client's end: connects, does the opening handshake, and stays connected."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import anyio
from gateway_http.credentials.oauth2 import token_source
from gateway_http.credentials.tokens import Token, TokenSource, next_token
from gateway_options.client_tls import client_context
from gateway_options.secrecy import shown_url
from gateway_transport.connection import Connection, Rejected
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from gateway_core.contract.component import BuildContext
from gateway_core.contract.one_line import one_line
from gateway_core.contract.options import HIDDEN

from .options import WebSocketConfig
from .socket import CLOSE_S, GOING_AWAY, SILENT, WebSocket
from .subprotocol import offered

_REJECTED = (401, 403)


Joined = Callable[[WebSocket], None]
"""Gets a connection as soon as it is open, and sets its handler."""


class ClientSocket(WebSocket):
    """A connection that this end opened. `opened` is done when the handshake is: None, or what failed."""

    def __init__(self, options: WebSocketConfig, joined: Joined, token: Token | None = None) -> None:
        assert options.url is not None
        self._client = ClientProtocol(
            parse_uri(options.url),
            subprotocols=[Subprotocol(name) for name in offered(options.acknowledged)],
            max_size=options.max_message_bytes,
            logger=SILENT,
        )
        super().__init__(self._client, options, options.connect_timeout_s)
        self.opened: asyncio.Future[Exception | None] = self._loop.create_future()
        self._options = options
        self._joined = joined
        self._token = token

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        request = self._client.connect()
        for name, value in self._options.headers.items():
            request.headers[name] = value
        if self._options.token:
            request.headers["Authorization"] = f"Bearer {self._options.token}"
        elif self._token is not None:
            request.headers["Authorization"] = self._token.header.decode()
        self._client.send_request(request)
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.opened.done():
            self.opened.set_result(self._failure() or ConnectionError(self.reason))

    def _handshake(self, event: Response) -> None:
        if self.opened.done():
            return
        failure = self._failure()
        if failure is None and not self.subprotocol:
            failure = Rejected("the server agreed to no subprotocol of CloudEvents")
        self.opened.set_result(failure)
        if failure is None:
            self._opened()
            self._joined(self)  # now: events may have come with the response

    def _failure(self) -> Exception | None:
        error = self._client.handshake_exc
        if isinstance(error, InvalidStatus):
            status = error.response.status_code
            text = f"the server answered {status} {error.response.reason_phrase}".rstrip()
            if detail := bytes(error.response.body or b"").decode(errors="replace"):
                text += f": {self._without_token(detail)[:300]}"
            text = one_line(self._without_token(text))
            return Rejected(text) if status in _REJECTED else ConnectionError(text)
        return ConnectionError(one_line(error)) if error is not None else None

    def _without_token(self, text: str) -> str:
        """A server may repeat the request."""
        token = self._options.token or (self._token.value.decode() if self._token is not None else "")
        return text.replace(token, HIDDEN) if token else text


async def opened(
    options: WebSocketConfig, tls: ssl.SSLContext | None, joined: Joined, tokens: TokenSource | None = None
) -> ClientSocket:
    """An open connection. Raises `OSError`, or `Rejected` for the wrong credentials or subprotocols. A token that was
    refused and may be replaced is an `OSError`."""
    token = await next_token(tokens) if tokens is not None else None
    try:
        return await _opened(options, tls, joined, token)
    except Rejected as e:
        if tokens is not None and token is not None and tokens.refused(token):
            raise ConnectionError(str(e)) from e
        raise


async def _opened(
    options: WebSocketConfig, tls: ssl.SSLContext | None, joined: Joined, token: Token | None
) -> ClientSocket:
    assert options.url is not None
    parts = urlsplit(options.url)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    loop = asyncio.get_running_loop()
    socket: ClientSocket | None = None

    def make() -> ClientSocket:
        return ClientSocket(options, joined, token)

    try:
        with anyio.fail_after(options.connect_timeout_s):
            _, socket = await loop.create_connection(make, parts.hostname or "", port, ssl=tls)
            failure = await asyncio.shield(socket.opened)
    except TimeoutError as e:
        raise OSError(f"no connection within {options.connect_timeout_s:g} s") from e
    finally:
        if socket is not None and not socket.is_open:
            socket.abort()
    if failure is not None:
        raise failure
    return socket


@contextmanager
def started(tokens: TokenSource | None) -> Iterator[None]:
    """The tokens' source gets tokens as long as this lasts."""
    if tokens is None:
        yield
        return
    tokens.start()
    try:
        yield
    finally:
        tokens.stop()


def context_of(options: WebSocketConfig, owner: str) -> ssl.SSLContext | None:
    """The TLS context of `wss://`. Raises `StartError`."""
    assert options.url is not None
    return client_context(options.client_tls, owner) if options.url.startswith("wss:") else None


def tokens_of(options: WebSocketConfig, owner: str) -> TokenSource | None:
    """What gets the tokens of the option `credentials`. Raises `StartError`."""
    return token_source(options.credentials, owner) if options.credentials is not None else None


def connection(
    options: WebSocketConfig,
    context: BuildContext,
    joined: Joined,
    tries: Callable[[], Callable[[Exception], None]] | None = None,
) -> Connection:
    """Keeps a connection to the server. `tries` is called before each try, and what it returns if the try fails. Raises
    `StartError`."""
    tls = context_of(options, context.owner)
    tokens = tokens_of(options, context.owner)

    async def session(connected: Callable[[], None]) -> None:
        with started(tokens):
            await once(connected)

    async def once(connected: Callable[[], None]) -> None:
        failed = tries() if tries is not None else None
        try:
            socket = await opened(options, tls, joined, tokens)
        except (OSError, Rejected) as e:
            if failed is not None:
                failed(e)
            raise
        try:
            connected()
            await socket.finish()
            raise ConnectionError(socket.reason)
        finally:
            await shut(socket)

    return Connection(context.owner, shown(options), session)


async def shut(socket: WebSocket) -> None:
    """Closes a connection, and returns when it has ended."""
    with anyio.CancelScope(shield=True):
        socket.close(GOING_AWAY)
        with anyio.move_on_after(CLOSE_S):
            await socket.finish()
        socket.abort()
        await socket.finish()


def shown(options: WebSocketConfig) -> str:
    """The server's address without secrets."""
    assert options.url is not None
    return shown_url(options.shown("url") or options.url, hidden=options.hides("url"))
