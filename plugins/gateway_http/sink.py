"""The way out: chooses the client engine."""

from __future__ import annotations

from gateway_core.component import BuildContext
from gateway_core.interfaces import Sink

from .config import HttpSinkConfig


def build_sink(options: HttpSinkConfig, context: BuildContext) -> Sink:
    """A sink on the engine that the options name."""
    if options.client == "httpx":
        from .httpx_client import HttpxSink

        return HttpxSink(options, context)
    from .client import NativeSink

    return NativeSink(options, context)
