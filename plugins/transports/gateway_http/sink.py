"""The HTTP sink: chooses the client engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.contract.component import BuildContext
from gateway_core.contract.interfaces import Sink

from .config import HttpSinkConfig

if TYPE_CHECKING:
    from .credentials.bearer_sink import Engine


def build_sink(options: HttpSinkConfig, context: BuildContext) -> Sink:
    """A sink with the engine and the credentials from the options. With `webhook`, one that asks for permission
    first."""
    engine = _engine(options, context)
    sink: Sink = engine
    if options.credentials is not None and options.credentials.bearer:
        from .credentials.bearer_sink import BearerSink
        from .credentials.oauth2 import token_source

        sink = BearerSink(engine, token_source(options.credentials, context.owner, offline=context.offline))
    if options.webhook is None:
        return sink
    from .webhook_sender import WebhookSink

    return WebhookSink(options, context, sink)


def _engine(options: HttpSinkConfig, context: BuildContext) -> Engine:
    if options.client == "httpx":
        from .httpx_client import HttpxSink

        return HttpxSink(options, context)
    from .client import NativeSink

    return NativeSink(options, context)
