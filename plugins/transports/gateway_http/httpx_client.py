"""The sink on httpx: HTTP/2 and proxies, at the cost of a task per event."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

import anyio
import httpx
from anyio.abc import TaskGroup
from gateway_options.client_tls import client_context
from gateway_transport import trace_headers

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import AsyncSink, Codec, Outcome
from gateway_core.contract.outcome import short, unwritable
from gateway_core.contract.shortage import is_shortage

from . import pool
from .client import Target, header_lines, preview
from .config import HttpSinkConfig
from .credentials.signing import Encode, Unsigned
from .local_ports import no_port_left
from .outcome import KEEP_BYTES, ResponseClassifier, unanswered

log = logging.getLogger(__name__)

CLOSE_S = 2.0
_ENDED = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class HttpxSink(AsyncSink):
    """A `Sink` with the same outcomes as the native one."""

    def __init__(self, options: HttpSinkConfig, context: BuildContext, codec: Codec, encode: Encode) -> None:
        self._options = options
        self._encode = encode
        self._target = Target(options, context.wants_reply)
        self._tls = client_context(options.tls, context.owner) if self._target.tls and not context.offline else None
        self._classifier = ResponseClassifier(
            codec,
            context.wants_reply,
            self._target.address,
            lambda: context.clock.now_ns() / 1e9,
            self._target.secrets,
        )
        self._client: httpx.AsyncClient | None = None
        self._until = 0.0  # the event loop's time from which on the next client is used
        self._busy: dict[httpx.AsyncClient, int] = {}  # requests in flight
        self._probed = not options.probe
        self._headers = self._target.headers
        self.address = self._target.address
        self.classify = self._classifier.classify
        self.replies = context.wants_reply

    def authorize(self, value: bytes) -> None:
        """See `credentials.bearer_sink.Engine`."""
        self._headers = [*self._target.headers, (b"authorization", value)]

    async def start(self, tasks: TaskGroup) -> None:
        await super().start(tasks)
        self._renew()

    def _renew(self) -> None:
        """New requests get new connections. httpx can't close idle ones alone, and an HTTP/2 connection that is dead
        would be used on."""
        count = self._options.max_connections
        self._until = anyio.current_time() + pool.MAX_AGE_S
        self._client = httpx.AsyncClient(
            http2=importlib.util.find_spec("h2") is not None,
            verify=self._tls or False,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=self._options.connect_timeout_s),
            limits=httpx.Limits(max_connections=count, max_keepalive_connections=count),
        )

    async def stop(self) -> None:
        for client in {*self._busy, *([self._client] if self._client is not None else ())}:
            await client.aclose()

    async def deliver(self, event: Event) -> Outcome:
        assert self._client is not None, "send before start"
        try:
            message = self._encode(event)
            if event.trace is not None:
                message.headers = [*message.headers, *trace_headers.headers(event.trace)]
            header_lines(message)
        except Refused as e:
            return e.outcome if isinstance(e, Unsigned) else unwritable(e)
        if not self._probed:
            self._probed = True
            left = anyio.current_effective_deadline() - anyio.current_time()
            with anyio.move_on_after(min(self._options.connect_timeout_s, left / 2)):
                await self._probe(self._client)
        before = self._client
        if anyio.current_time() >= self._until:
            self._renew()
            await self._close_unless_busy(before)
        client = self._client
        self._busy[client] = self._busy.get(client, 0) + 1
        try:
            return await self._post(client, message)
        except anyio.get_cancelled_exc_class():  # no answer in time: the idle connections may be as dead
            if client is self._client:
                self._renew()
            raise
        finally:
            self._busy[client] -= 1
            if client is not self._client:
                await self._close_unless_busy(client)

    async def _close_unless_busy(self, client: httpx.AsyncClient) -> None:
        if not self._busy.get(client):
            self._busy.pop(client, None)
            with anyio.move_on_after(CLOSE_S, shield=True):
                await client.aclose()

    async def _post(self, client: httpx.AsyncClient, message: Message) -> Outcome:
        # a reply is an event whose bytes are passed on, so no content coding is requested
        headers = [(b"accept-encoding", b"identity"), *self._headers, *message.headers]
        try:
            async with client.stream(
                "POST", self._target.url, headers=headers, content=message.body or b""
            ) as response:
                limit = self._classifier.body_limit(response.status_code)
                body = bytearray()
                came = 0
                assert isinstance(response.stream, httpx.AsyncByteStream)
                async for part in response.stream:  # `aiter_raw` would release the connection immediately
                    if len(body) <= limit:
                        body += part
                    came += len(part)
                    if came > pool.MAX_ANSWER_BYTES:  # the status says all that is needed
                        # HTTP/2 would keep the connection with a closed flow-control window
                        await response.extensions["network_stream"].aclose()
                        break
                await _leave_if_more(response)
        except httpx.HTTPError as e:
            if is_shortage(e):
                return short(e)
            if client is self._client and isinstance(e, _ENDED):
                self._renew()
            if await no_port_left(e, self._target.host, self._target.port):
                return short("all local ports for connections to the address are in use")
            reached = isinstance(e, (httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError))
            return unanswered(f"{_words(e)}: {e}" if str(e) else _words(e), reached)
        found = [(name.lower(), value) for name, value in response.headers.raw]
        return self._classifier.classify(response.status_code, found, bytes(body[:limit]), len(body) > limit)

    def preview(self, event: Event) -> Message:
        return preview(self._options, self._target, self._encode(event))

    async def _probe(self, client: httpx.AsyncClient) -> None:
        try:
            async with client.stream("OPTIONS", self._target.url, headers=self._headers) as response:
                came = 0
                assert isinstance(response.stream, httpx.AsyncByteStream)
                async for part in response.stream:
                    came += len(part)
                    if came > KEEP_BYTES:
                        await response.extensions["network_stream"].aclose()
                        break
                await _leave_if_more(response)
        except Exception as e:  # it does not stop the delivery (Knative data plane): the first POST shows what is wrong
            log.debug("%s: no answer to the probe: %s", self._target.address, type(e).__name__)


async def _leave_if_more(response: httpx.Response) -> None:
    """Closes an HTTP/1 connection that delivered more than the response. httpx would keep it and take the rest for the
    response to the next request. Only h11's state shows this; if it can't be found, no connection is kept."""
    if response.http_version == "HTTP/2":
        return
    found: Any = response.stream
    for name in ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state"):
        found = getattr(found, name, None)
    if found is None:
        await response.extensions["network_stream"].aclose()
    elif found.trailing_data[0]:
        found.send_failed()  # a state in which a connection is closed, not kept


def _words(error: httpx.HTTPError) -> str:
    """`ConnectError` as "connect error"."""
    name = type(error).__name__
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
