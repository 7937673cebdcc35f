"""The HTTP sink, and the steps of an attempt: ask for permission, authorize, encode, sign, send."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway_cloudevents.bindings import HTTP

from gateway_core.contract.component import BuildContext
from gateway_core.contract.interfaces import Codec, Sink

from .config import HttpSinkConfig
from .credentials.signing import signing

if TYPE_CHECKING:
    from .credentials.bearer_sink import Engine


def build_sink(options: HttpSinkConfig, context: BuildContext) -> Sink:
    """A sink with the steps that the options want; the last one put around it runs first."""
    codec: Codec = context.build(options.codec, "codec", binding=HTTP)
    engine = _engine(options, context, codec)
    sink: Sink = engine
    if options.credentials is not None and options.credentials.bearer:
        from .credentials.bearer_sink import BearerSink
        from .credentials.oauth2 import token_source

        sink = BearerSink(engine, token_source(options.credentials, context.owner, offline=context.offline))
    if options.webhook is None:
        return sink
    from .webhook_sender import WebhookSink

    return WebhookSink(options, context, sink)


def _engine(options: HttpSinkConfig, context: BuildContext, codec: Codec) -> Engine:
    """Encodes, signs and sends."""
    if options.batch is not None:
        from .batches import BatchSink

        return BatchSink(options, replace(context, wants_reply=False), codec)
    if options.client == "httpx":
        from .httpx_client import HttpxSink

        return HttpxSink(options, context, codec, signing(codec.encode, options.credentials, context))
    from .client import NativeSink, shared_parts

    parts = shared_parts(options, context, codec)
    return NativeSink(options, context, parts, signing(parts.value.encode, options.credentials, context))
