"""The HTTP sink: chooses the client engine."""

from __future__ import annotations

from gateway_core.contract.component import BuildContext
from gateway_core.contract.interfaces import Sink

from .config import HttpSinkConfig


def build_sink(options: HttpSinkConfig, context: BuildContext) -> Sink:
    """A sink with the engine from the options. With `webhook`, one that asks for permission first."""
    sink = _engine(options, context)
    if options.webhook is None:
        return sink
    from .webhook_sender import WebhookSink

    return WebhookSink(options, context, sink)


def _engine(options: HttpSinkConfig, context: BuildContext) -> Sink:
    if options.client == "httpx":
        from .httpx_client import HttpxSink

        return HttpxSink(options, context)
    from .client import NativeSink

    return NativeSink(options, context)
