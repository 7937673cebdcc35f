"""What the plugin offers."""

from __future__ import annotations

from typing import Any

from gateway_core.component import BuildContext, Component, Transport
from gateway_core.hookspecs import hookimpl

from .config import FnCodecConfig, FnSinkConfig, FnSourceConfig


def _source(options: FnSourceConfig, context: BuildContext) -> Any:
    from .source import FnSource

    return FnSource(options, context)


def _sink(options: FnSinkConfig, context: BuildContext) -> Any:
    from .sink import FnSink

    return FnSink(options, context)


def _codec(options: FnCodecConfig, context: BuildContext) -> Any:
    from .codec import FnCodec

    return FnCodec(options, context)


@hookimpl
def gateway_transports() -> list[Transport]:
    return [
        Transport(
            "fn",
            source=Component(
                "fn",
                "Calls a function with every HTTP request and answers with the event that it returns (Fn Project).",
                FnSourceConfig,
                _source,
            ),
            sink=Component(
                "fn",
                "Sends events to a function, with a deadline, and takes what it returns as replies (Fn Project).",
                FnSinkConfig,
                _sink,
            ),
        )
    ]


@hookimpl
def gateway_codecs() -> list[Component]:
    return [
        Component(
            "fn",
            "CloudEvents as functions write and read them: JSON in structured mode, incomplete where they return them.",
            FnCodecConfig,
            _codec,
        )
    ]
