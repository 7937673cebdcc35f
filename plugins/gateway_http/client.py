"""The sink on the native client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from anyio.abc import TaskGroup
from gateway_cloudevents.bindings import HTTP

from gateway_core.contract import tracing
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec, Outcome
from gateway_core.contract.outcome import unwritable

from .config import HttpSinkConfig
from .connection import Exchange
from .outcome import ResponseClassifier
from .pool import Pool
from .request import RequestWriter, Target, preview
from .tls import client_context


class NativeSink:
    """A `Sink` that creates no task per event: a request is one write, its outcome a callback."""

    def __init__(self, options: HttpSinkConfig, context: BuildContext) -> None:
        codec: Codec = context.build(options.codec, "codec", binding=HTTP)
        target = Target(options, context.wants_reply)
        tls = client_context(options.tls, context.owner) if target.tls and not context.offline else None
        classifier = ResponseClassifier(
            codec, context.wants_reply, target.address, lambda: context.clock.now_ns() / 1e9
        )
        self.address = target.address
        self.classify = classifier.classify
        self.replies = context.wants_reply
        self.most_in_flight = options.max_connections  # one request at a time on each
        self._options, self._target = options, target
        self._encode = codec.encode
        self._writer = RequestWriter(target)
        self._write = self._writer.write
        self._connect_timeout_s = options.connect_timeout_s
        self._pool = Pool(target.host, target.port, tls, options.max_connections, options.connect_timeout_s, classifier)
        self._held: list[Exchange] | None = [] if options.probe else None  # until the probe is answered
        self._probing = False

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
                message.headers = [*message.headers, *tracing.headers(event.trace)]
            data = self._write(message)
        except Refused as e:
            self._loop.call_soon(done, unwritable(e))
            return
        exchange = Exchange(data, self._now() + timeout_s, timeout_s, done)
        if self._held is not None:
            self._probe(exchange)
        else:
            self._pool.send(exchange)

    def preview(self, event: Event) -> Message:
        return preview(self._options, self._target, self._encode(event))

    def _probe(self, exchange: Exchange) -> None:
        """Holds requests back until the `OPTIONS` request is answered or fails, then sends them in either case."""
        assert self._held is not None
        self._held.append(exchange)
        if not self._probing:
            self._probing = True
            limit = min(self._connect_timeout_s, exchange.timeout_s / 2)
            self._pool.send(Exchange(self._writer.probe, self._now() + limit, limit, self._probed))

    def _probed(self, outcome: Outcome) -> None:
        held, self._held = self._held or [], None
        for exchange in held:
            self._pool.send(exchange)
