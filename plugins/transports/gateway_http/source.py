"""The HTTP source: a path on an address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyio.abc import TaskGroup
from gateway_access.counts import Counts
from gateway_access.exposure import refuse_open
from gateway_access.gate import gate_of
from gateway_cloudevents.bindings import HTTP
from gateway_options.secrecy import shown_url
from gateway_serving.address import url_at
from gateway_serving.listen import split_listen
from gateway_serving.tls import server_tls
from gateway_transport.witness import Witness

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import StartError
from gateway_core.contract.interfaces import Codec, Intake, Source

from .config import HttpSourceConfig
from .endpoint import Endpoint
from .listener import Listener
from .server import NativeListener, attach, detach, follow
from .webhook_receiver import WebhookEndpoint, WebhookReceiver


class HttpSource:
    """A `Source` that responds 202 once its intake has made the events safe."""

    info: Callable[[], dict[str, Any]]
    """See `gateway_core.contract.capabilities.Watched`; there only if an authenticator reports its state."""

    def __init__(self, options: HttpSourceConfig, context: BuildContext) -> None:
        self._options = options
        self._context = context
        self._codec: Codec = context.build(options.codec, "codec", binding=HTTP)
        self.read = self._codec.decode
        self._tls = None if context.offline else server_tls(options.tls, context.owner)
        self._listener: Listener | None = None
        self._endpoint: Endpoint | None = None
        if not context.offline:
            refuse_open(options, context.owner)
            if context.workers > 1 and split_listen(options.listen)[1] == 0:
                # each worker would get its own port, and only the first worker's would be known
                text = f"{context.workers} workers share one port: `listen` needs a fixed one"
                raise StartError(f"{context.owner}: {text}")
        self._key_headers: Sequence[bytes] = ()
        self._counts = Counts()
        self._gate = gate_of(options, context, counts=self._counts)
        self._witness: Witness | None = None
        self.address = ""
        if self._gate is not None and self._gate.reports:
            self.info = self._gate.info

    def tell_headers(self, names: Sequence[bytes]) -> None:
        """See `gateway_core.contract.capabilities.TellsHeaders`."""
        self._key_headers = names

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        options, context = self._options, self._context
        self._endpoint = self._new_endpoint(intake)
        if self._gate is not None:
            await self._gate.start(tasks)
        self._listener = await attach(options, self._endpoint, self._make, context.workers, tasks)
        self.address = self._url(self._listener.port)

    async def take_over(self, old: Source, intake: Intake, tasks: TaskGroup) -> bool:
        """Replaces another HTTP source if it has the same address."""
        if not isinstance(old, HttpSource) or old._options.listen != self._options.listen:
            return False
        if old._listener is None or old._endpoint is None:
            return False
        endpoint = self._new_endpoint(intake)
        if self._gate is not None:
            await self._gate.start(tasks)
        listener = await follow(old._listener, old._endpoint, self._options, endpoint, self._make, tasks)
        if listener is None:
            if self._gate is not None:
                await self._gate.stop()
            return False
        old._listener = None
        if old._gate is not None:
            await old._gate.stop()
        self._listener, self._endpoint = listener, endpoint
        self.address = self._url(listener.port)
        return True

    def _new_endpoint(self, intake: Intake) -> Endpoint:
        context = self._context
        now_ns = context.clock.now_ns
        limit = self._options.limits.max_body_bytes
        kind = Endpoint if self._options.webhook is None else WebhookEndpoint
        endpoint = kind(
            self._options.path,
            self._codec,
            now_ns,
            intake,
            context.owner,
            context.traces,
            max_body_bytes=limit,
            gate=self._gate,
            key_headers=self._key_headers,
        )
        endpoint.witness(self._witness)
        if isinstance(endpoint, WebhookEndpoint) and self._options.webhook is not None:
            endpoint.handshakes(WebhookReceiver(self._options.webhook, context.clock.monotonic))
        return endpoint

    def witness(self, witness: Witness | None) -> None:
        """See `gateway_transport.witness.Witnessed`."""
        self._witness = witness
        if self._endpoint is not None:
            self._endpoint.witness(witness)

    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return self._counts.metrics("http")

    def _url(self, port: int) -> str:
        options = self._options
        host = split_listen(options.listen)[0]
        url = url_at("https" if options.tls else "http", host, port, options.path)
        return shown_url(url, hidden=options.hides("path"))

    async def stop(self) -> None:
        if self._gate is not None:
            self._gate.leave()
        if self._listener is not None and self._endpoint is not None:
            await detach(self._listener, self._endpoint)
        if self._gate is not None:
            await self._gate.stop()

    def _make(self) -> Listener:
        if self._options.server == "hypercorn":
            from .hypercorn_server import HypercornListener

            return HypercornListener(self._options, self._tls, self._context.owner)
        return NativeListener(self._options, self._tls, self._context.owner)
