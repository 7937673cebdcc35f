"""The way out on httpx: HTTP/2 and proxies, at the price of a task for each event."""

from __future__ import annotations

import importlib.util
from typing import Any

import httpx
from anyio.abc import TaskGroup

from gateway_core import tracing
from gateway_core.component import BuildContext
from gateway_core.errors import Refused
from gateway_core.event import Event, Message
from gateway_core.interfaces import AsyncSink, Codec, Outcome
from gateway_core.outcome import short, unwritable
from gateway_core.shortage import is_shortage, no_port_left

from .config import HttpSinkConfig
from .connection import MAX_ANSWER_BYTES
from .outcome import Judge, unanswered
from .request import Target, header_lines, preview
from .tls import client_context


class HttpxSink(AsyncSink):
    """A `Sink` with the outcomes of the native one."""

    def __init__(self, options: HttpSinkConfig, context: BuildContext) -> None:
        self._options = options
        self._codec: Codec = context.build(options.codec, "codec")
        self._target = Target(options, context.wants_reply)
        self._tls = client_context(options.tls, context.owner) if self._target.tls and not context.offline else None
        self._judge = Judge(
            self._codec, context.wants_reply, self._target.address, lambda: context.clock.now_ns() / 1e9
        )
        self._client: httpx.AsyncClient | None = None
        self._probed = not options.probe
        self.address = self._target.address
        self.judge = self._judge.settle
        self.replies = context.wants_reply

    async def start(self, tasks: TaskGroup) -> None:
        await super().start(tasks)
        count = self._options.max_connections
        self._client = httpx.AsyncClient(
            http2=importlib.util.find_spec("h2") is not None,
            verify=self._tls or False,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=self._options.connect_timeout_s),
            limits=httpx.Limits(max_connections=count, max_keepalive_connections=count),
        )

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def deliver(self, event: Event) -> Outcome:
        assert self._client is not None, "send before start"
        try:
            message = self._codec.encode(event)
            if event.trace is not None:
                message.headers = [*message.headers, *tracing.headers(event.trace)]
            header_lines(message)
        except Refused as e:
            return unwritable(e)
        if not self._probed:
            self._probed = True
            await self._probe(self._client)
        # a reply is an event whose bytes are passed on: no content coding is asked for
        headers = [(b"accept-encoding", b"identity"), *self._target.headers, *message.headers]
        try:
            async with self._client.stream(
                "POST", self._target.url, headers=headers, content=message.body or b""
            ) as response:
                limit = self._judge.body_limit(response.status_code)
                body = bytearray()
                came = 0
                assert isinstance(response.stream, httpx.AsyncByteStream)
                async for part in response.stream:  # `aiter_raw` would give the connection back at once
                    if len(body) <= limit:
                        body += part
                    came += len(part)
                    if came > MAX_ANSWER_BYTES:  # the status says all that is needed
                        # HTTP/2 would keep the connection, with a window that nobody opens again
                        await response.extensions["network_stream"].aclose()
                        break
                await _leave_if_more(response)
        except httpx.HTTPError as e:
            if is_shortage(e):
                return short(e)
            if await no_port_left(e, self._target.host, self._target.port):
                return short("every local port towards the address is in use")
            return unanswered(f"{_words(e)}: {e}" if str(e) else _words(e))
        found = [(name.lower(), value) for name, value in response.headers.raw]
        return self._judge.settle(response.status_code, found, bytes(body[:limit]), len(body) > limit)

    def preview(self, event: Event) -> Message:
        return preview(self._options, self._target, self._codec.encode(event))

    async def _probe(self, client: httpx.AsyncClient) -> None:
        try:
            await client.options(self._target.address, headers=self._target.headers)
        except httpx.HTTPError:
            return  # the first POST tells (Knative data plane: an error of the probe does not stop the delivery)


async def _leave_if_more(response: httpx.Response) -> None:
    """Closes an HTTP/1 connection on which more than the answer came. httpx would keep it, and take what is left over
    for the answer to the next request. Only h11's state knows; where it can't be found, no connection is kept."""
    if response.http_version == "HTTP/2":
        return
    found: Any = response.stream
    for name in ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state"):
        found = getattr(found, name, None)
    if found is None:
        await response.extensions["network_stream"].aclose()
    elif found.trailing_data[0]:
        found.send_failed()  # a state from which a connection is closed, not kept


def _words(error: httpx.HTTPError) -> str:
    """`ConnectError` as "connect error"."""
    name = type(error).__name__
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
