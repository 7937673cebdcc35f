"""HTTP/2 with Hypercorn's protocol, on connections that our own listener accepts, counts and times out."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from contextlib import suppress
from typing import Any, cast

import anyio
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from gateway_serving import responses
from gateway_serving.asgi import ClientDisconnected, Receive, Scope, Send, read_body, respond
from gateway_serving.hosts import authority_in
from gateway_serving.peer import peer_of
from gateway_serving.responses import Response
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.http_stream import ASGIHTTPState
from hypercorn.typing import ConnectionState

from gateway_core.contract.event import Message

from .endpoint import Endpoint, decide
from .listener import HttpListener

log = logging.getLogger(__name__)

_UNREAD = 64 * 1024
_UNANSWERED = 3
"""Unanswered requests of a connection, in streams that may be open at a time: those of streams that the client has
reset still run."""
_RESETS = 200
_RESETS_PER_S = 10.0
"""How many requests a client may give up before their answer, at once and then each second."""


class Http2Engine:
    """State shared by the connections of a listener."""

    def __init__(self, listener: HttpListener) -> None:
        self.listener = listener
        self.context = WorkerContext(None)
        self.config = Config()
        self.config.accesslog = None
        self.config.errorlog = logging.getLogger("hypercorn.error")
        self.config.include_server_header = False
        self.config.h2_max_header_list_size = listener.limits.max_header_bytes
        # bodies are limited and counted where they are read; a full queue would block the whole connection
        self.config.max_app_queue_size = 0
        # Hypercorn would close the connection then, and answer none of the requests in flight
        self.config.keep_alive_max_requests = sys.maxsize
        self._running: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Accepts no more streams."""
        await self.context.terminated.set()

    def take_over(self, transport: asyncio.Transport, data: bytes) -> None:
        """Takes over a connection on which `data` has arrived."""
        connection = Http2Connection(self, transport)
        if not self.listener.admit(connection):
            transport.abort()
            return
        transport.set_protocol(connection)
        if data:
            connection.data_received(data)
        task = asyncio.get_running_loop().create_task(connection.run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)


class Protocol(H2Protocol):
    """Hypercorn's protocol, hardened: methods are case-sensitive, tunnels are rejected, data of a stream that is
    already answered does no harm, and a client that keeps giving up requests (CVE-2023-44487) is cut off."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        codes = h2.settings.SettingCodes
        self.connection.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                codes.MAX_CONCURRENT_STREAMS: self.config.h2_max_concurrent_streams,
                codes.MAX_HEADER_LIST_SIZE: self.config.h2_max_header_list_size,
            },
        )
        self._resets = 0.0
        self._reset_at = time.monotonic()

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            number = getattr(event, "stream_id", None)
            if isinstance(event, h2.events.RequestReceived) and not _is_plain(event):
                self._reset(event.stream_id)
            elif isinstance(event, h2.events.RequestReceived) and self.context.terminated.is_set():
                self._reset(event.stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            elif isinstance(event, h2.events.DataReceived) and not self._is_wanted(number):
                try:
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                except h2.exceptions.ProtocolError:
                    continue
            elif isinstance(event, h2.events.StreamReset) and number in self.streams and self._gives_up_too_often():
                self.connection.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
                await self._flush()
                await self.send(Closed())
                return
            else:
                await super()._handle_events([event])
        await self._flush()

    def _is_wanted(self, number: int | None) -> bool:
        """Whether anybody reads a stream's data. Once it is answered nobody does, and it would be kept until the client
        has read the answer."""
        stream = self.streams.get(number or 0)
        return stream is not None and stream.state is ASGIHTTPState.REQUEST

    def _gives_up_too_often(self) -> bool:
        now = time.monotonic()
        self._resets = max(0.0, self._resets - (now - self._reset_at) * _RESETS_PER_S) + 1
        self._reset_at = now
        return self._resets > _RESETS

    def _reset(self, number: int | None, code: int = h2.errors.ErrorCodes.PROTOCOL_ERROR) -> None:
        if number is not None:
            self.connection.reset_stream(number, code)


def _is_plain(request: h2.events.RequestReceived) -> bool:
    fields = dict(request.headers or [])
    method, path = fields.get(b":method", b""), fields.get(b":path", b"")
    return bool(method and path) and method.isupper() and method != b"CONNECT" and method.isascii() and path.isascii()


class Http2Connection(asyncio.Protocol):
    """One client. `held` is the number of bytes of incomplete requests."""

    def __init__(self, engine: Http2Engine, transport: asyncio.Transport) -> None:
        self._engine = engine
        self._listener = engine.listener
        self._transport: asyncio.Transport | None = transport
        self._data = bytearray()
        self._came = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._held_back = self._paused = self._ended = False
        self._protocol: Protocol | None = None
        self._requests = 0
        self._endpoints: list[Endpoint] = []
        self._bodies = 0
        self._since = self._begun = self._listener.now
        self.held = 0

    # -- transport ----------------------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ended = True
        self._came.set()
        self._writable.set()
        self._listener.lost(self)

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._came.set()
        self._steer_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._since = self._listener.now
        self._writable.clear()

    def resume_writing(self) -> None:
        self._since = self._listener.now
        self._writable.set()

    def _steer_reading(self) -> None:
        transport, pause = self._transport, self._held_back or len(self._data) > _UNREAD
        if transport is None or transport.is_closing() or pause == self._paused:
            return
        self._paused = pause
        if pause:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # -- Hypercorn's side ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serves the connection until it ends. Whatever a client sends affects only its own connection."""
        try:
            async with TaskGroup(asyncio.get_running_loop()) as tasks:
                engine = self._engine
                self._protocol = protocol = Protocol(
                    ASGIWrapper(cast(Any, self._app)),
                    engine.config,
                    engine.context,
                    tasks,
                    ConnectionState({}),
                    self._listener.tls is not None,
                    None,
                    None,
                    self._send,
                )
                await protocol.initiate()
                while not self._ended:
                    data, self._data = bytes(self._data), bytearray()
                    self._came.clear()
                    self._steer_reading()
                    if data:
                        await protocol.handle(RawData(data))
                    await self._came.wait()
                await protocol.handle(Closed())
        except Exception as e:
            log.debug("an HTTP/2 connection ended with an error", exc_info=e)
        finally:
            self.abort()

    async def _send(self, event: Any) -> None:
        if isinstance(event, RawData):
            if self._transport is not None and not self._transport.is_closing():
                self._transport.write(event.data)
                await self._writable.wait()
        elif isinstance(event, Closed):
            if self._transport is not None:
                self._transport.close()
        elif isinstance(event, Updated) and event.idle:
            self._since = self._listener.now

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if self._requests >= _UNANSWERED * self._engine.config.h2_max_concurrent_streams:
            self.abort()
            return
        self._requests += 1
        try:
            status, headers, body = await self._response(scope, receive)
            with anyio.move_on_after(self._listener.limits.idle_timeout_s) as limit:
                await respond(send, status, headers, body, head=scope["method"] == "HEAD")
            if limit.cancelled_caught:  # the client opens no flow-control window for the response
                self.abort()
        except ClientDisconnected:
            pass
        finally:
            self._requests -= 1
            self._since = self._listener.now

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        headers = [(name, value) for name, value in scope["headers"] if name[:1] != b":"]
        limits = self._listener.limits
        if len(headers) > limits.max_headers:
            return responses.problem(431, f"More than {limits.max_headers} header fields.")
        method, path = scope["method"].encode("latin-1"), scope["raw_path"]
        authority = authority_in(path)
        names = [value for name, value in headers if name == b"host"] if authority is None else [authority]
        for name in names:
            if detail := self._listener.hosts.refusal(name):
                return responses.problem(421, detail)
        decision = decide(self._listener.routes, method, path, headers)
        if not isinstance(decision, Endpoint):
            return decision
        counting = _Counting(self, receive, sum(len(name) + len(value) for name, value in headers))
        try:
            with anyio.fail_after(limits.body_timeout_s):
                body = await read_body(counting, limits.max_body_bytes)
        except TimeoutError:
            return responses.problem(408, "The request took too long to come.")
        finally:
            counting.done()
        if body is None:
            return responses.too_large(limits.max_body_bytes)
        target = path + b"?" + scope["query_string"] if scope["query_string"] else path
        return await self._take(decision, Message(headers, body, None, "POST", target.decode("latin-1")))

    async def _take(self, endpoint: Endpoint, message: Message) -> Response:
        result: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def done(error: BaseException | None) -> None:
            if not result.done():
                result.set_result(error)

        self._endpoints.append(endpoint)
        if endpoint.asks_peer:
            message.peer = peer_of(self._transport)
        try:
            coded = message.header(b"content-encoding") is not None
            (endpoint.take_coded if coded else endpoint.take)(message, done)
            return responses.for_error(await result)
        finally:
            self._endpoints.remove(endpoint)

    # -- the budget ---------------------------------------------------------------------------------------------------

    def holds(self, change: int) -> None:
        """Adds `change` bytes of requests; a negative number if they were handled."""
        if not self._bodies:
            self._begun = self._listener.now
        self._bodies += change
        if self._transport is None:
            return
        if self._bodies:
            self._listener.budget.hold(self, self._bodies)
        else:
            self._listener.budget.release(self)

    def begun(self) -> float:
        return self._begun

    def hold_back(self, paused: bool) -> None:
        self._held_back = paused
        self._steer_reading()

    def evict(self) -> None:
        self._listener.budget.release(self)
        self.abort()

    # -- the listener's side ------------------------------------------------------------------------------------------

    def serves(self, endpoint: Endpoint | None) -> bool:
        return bool(self._endpoints) if endpoint is None else endpoint in self._endpoints

    def idle_since(self) -> tuple[int, float] | None:
        if self._endpoints or self._transport is None or self._transport.is_closing():
            return None
        return (1 if self._requests else 0), self._since

    def check(self, now: float) -> None:
        waits = not self._requests or not self._writable.is_set()
        if waits and now - self._since > self._listener.limits.idle_timeout_s:
            self.abort()

    def drain(self) -> None:
        transport, protocol = self._transport, self._protocol
        if self._endpoints or transport is None or transport.is_closing():
            return
        if protocol is not None:  # GOAWAY: what the client has sent meanwhile may be sent again elsewhere
            with suppress(h2.exceptions.ProtocolError):
                protocol.connection.close_connection()
            transport.write(protocol.connection.data_to_send())
        transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Counting:
    """`receive` that counts the bytes of a head and its body in the budget until the body is complete."""

    def __init__(self, connection: Http2Connection, receive: Receive, head: int) -> None:
        self._connection = connection
        self._receive = receive
        self._size = head
        connection.holds(head)

    async def __call__(self) -> dict[str, Any]:
        message = await self._receive()
        if part := message.get("body"):
            self._size += len(part)
            self._connection.holds(len(part))
        return message

    def done(self) -> None:
        self._connection.holds(-self._size)
