"""The sink on the native client, and the requests that both client engines write."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from anyio.abc import TaskGroup
from gateway_options.client_tls import client_context
from gateway_options.secrecy import names_credential, shown_url
from gateway_transport import trace_headers

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec, Outcome
from gateway_core.contract.outcome import unwritable

from .config import HttpSinkConfig
from .credentials.signing import Encode, Unsigned, signature_headers
from .outcome import ResponseClassifier
from .pool import Exchange, Pool
from .shared import InUse, Shared

_HARMLESS = bytes(set(range(256)) - set(b"\r\n\0"))


class Target:
    """A sink's URL in parts. Requests go to `url`; `address` is the form without secrets; `headers` are sent with every
    request."""

    def __init__(self, options: HttpSinkConfig, wants_reply: bool) -> None:
        parts = urlsplit(options.url)
        self.tls = parts.scheme == "https"
        self.host = parts.hostname or ""
        port, user, password = parts.port, parts.username, unquote(parts.password or "")
        self.port = port or (443 if self.tls else 80)
        name = f"[{self.host}]" if ":" in self.host else self.host
        place = name if port is None else f"{name}:{port}"
        self.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.url = f"{parts.scheme}://{place}{self.path}"
        self.address = shown_url(options.shown("url") or self.url, hidden=options.hides("url"))
        headers = {"host": place, "user-agent": "tidegate"}
        if user is not None:
            pair = f"{unquote(user)}:{password}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        if wants_reply:
            headers["prefer"] = "reply"
        if options.webhook is not None:
            headers["webhook-request-origin"] = options.webhook.origin
        headers |= {name.lower(): value for name, value in options.headers.items()}
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        hidden = {name.lower() for name in options.headers} if options.hides("headers") else set()
        found = [value for name, value in headers.items() if name in hidden or names_credential(name)]
        found += [value.partition(" ")[2] for value in found]
        found += [password]
        self.secrets = [value.encode() for value in found if len(value) >= _SHORTEST_SECRET]
        """What no answer may bring back into a dead letter."""


_HIDDEN = b"****"
_SHORTEST_SECRET = 6


def preview(options: HttpSinkConfig, target: Target, message: Message) -> Message:
    """The request in a form without secrets. Raises `Refused` if it can't be written."""
    header_lines(message)
    secret = {name.lower().encode() for name in options.headers} if options.hides("headers") else set()
    fixed = [(n, _HIDDEN if n in secret or names_credential(n.decode()) else v) for n, v in target.headers]
    if options.credentials is not None and options.credentials.bearer:
        fixed.append((b"authorization", _HIDDEN))
    signatures = signature_headers(options.credentials)
    written = [(n, _HIDDEN if n in signatures else v) for n, v in message.headers]
    return Message([*fixed, *written], message.body or b"", None, "POST", target.address)


class RequestWriter:
    """Writes each request as one piece of HTTP/1.1 bytes."""

    def __init__(self, target: Target, *more: tuple[bytes, bytes]) -> None:
        """Each request has the target's header fields, and these."""
        lines = b"".join([b"%s: %s\r\n" % header for header in (*target.headers, *more)])
        self._start = b"POST %s HTTP/1.1\r\n" % target.path.encode() + lines
        self.probe = b"OPTIONS %s HTTP/1.1\r\n" % target.path.encode() + lines + b"\r\n"

    def write(self, message: Message) -> bytes:
        body = message.body or b""
        return b"%s%scontent-length: %d\r\n\r\n%s" % (self._start, header_lines(message), len(body), body)


def header_lines(message: Message) -> bytes:
    """Raises `Refused` if a header contains a line break, which would begin another header or request."""
    headers = message.headers
    lines = b"\r\n".join([*map(b": ".join, headers), b""])
    if lines.translate(None, _HARMLESS) != b"\r\n" * len(headers):
        raise Refused("a header value contains a line break or NUL", rule="RFC 9110 section 5.5")
    return lines


class _Parts:
    """What sinks with the same options have in common: all of it stays as it is."""

    def __init__(self, options: HttpSinkConfig, codec: Codec, context: BuildContext) -> None:
        wants_reply, now_ns = context.wants_reply, context.clock.now_ns
        self.options = options
        self.target = Target(options, wants_reply)
        self.writer = RequestWriter(self.target)
        self.classifier = ResponseClassifier(
            codec, wants_reply, self.target.address, lambda: now_ns() / 1e9, self.target.secrets
        )
        # bound once for all
        self.encode, self.write, self.classify = codec.encode, self.writer.write, self.classifier.classify


_in_use: InUse[_Parts] = InUse()


def shared_parts(options: HttpSinkConfig, context: BuildContext, codec: Codec) -> Shared[_Parts]:
    """Those of an earlier sink with these options, or new ones: 10,000 triggers may have one subscriber."""
    # what is in use holds its options, codec and clock, so their ids are theirs alone
    key = (id(options), id(codec), id(context.clock), context.wants_reply)
    return _in_use.get(key, lambda: _Parts(options, codec, context))


class NativeSink:
    """A `Sink` that creates no task per event: a request is one write, its outcome a callback."""

    __slots__ = (
        "_encode", "_held", "_loop", "_now", "_pool", "_probing", "_shared", "_write", "_writer", "address", "classify",
        "most_in_flight", "replies",
    )  # fmt: skip

    def __init__(self, options: HttpSinkConfig, context: BuildContext, shared: Shared[_Parts], encode: Encode) -> None:
        self._shared = shared
        parts = shared.value
        target = parts.target
        tls = client_context(options.tls, context.owner) if target.tls and not context.offline else None
        self.address = target.address
        self.classify = parts.classify
        self.replies = context.wants_reply
        self.most_in_flight = options.max_connections  # one request at a time on each
        self._encode = encode
        self._writer = parts.writer
        self._write = parts.write
        self._pool = Pool(
            target.host, target.port, tls, options.max_connections, options.connect_timeout_s, parts.classifier
        )
        self._held: list[Exchange] | None = [] if options.probe else None  # until the probe is answered
        self._probing = False

    def authorize(self, value: bytes) -> None:
        """See `credentials.bearer_sink.Engine`."""
        self._writer = RequestWriter(self._shared.value.target, (b"authorization", value))
        self._write = self._writer.write

    async def start(self, tasks: TaskGroup) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._pool.start(tasks)

    async def stop(self) -> None:
        self._pool.stop()

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            message = self._encode(event)
            if event.trace is not None:
                message.headers = [*message.headers, *trace_headers.headers(event.trace)]
            data = self._write(message)
        except Refused as e:
            self._loop.call_soon(done, e.outcome if isinstance(e, Unsigned) else unwritable(e))
            return
        self._post(Exchange(data, self._now() + timeout_s, timeout_s, done))

    def _post(self, exchange: Exchange) -> None:
        if self._held is not None:
            self._probe(exchange)
        else:
            self._pool.send(exchange)

    def preview(self, event: Event) -> Message:
        parts = self._shared.value
        return preview(parts.options, parts.target, self._encode(event))

    def _probe(self, exchange: Exchange) -> None:
        """Holds requests back until the `OPTIONS` request is answered or fails, then sends them in either case."""
        assert self._held is not None
        self._held.append(exchange)
        if not self._probing:
            self._probing = True
            limit = min(self._shared.value.options.connect_timeout_s, exchange.timeout_s / 2)
            self._pool.send(Exchange(self._writer.probe, self._now() + limit, limit, self._probed))

    def _probed(self, outcome: Outcome) -> None:
        held, self._held = self._held or [], None
        for exchange in held:
            self._pool.send(exchange)
