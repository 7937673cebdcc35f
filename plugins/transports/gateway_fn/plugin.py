"""The plugin's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

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


def _source_config() -> type[BaseModel]:
    from .config import FnSourceConfig

    return FnSourceConfig


def _sink_config() -> type[BaseModel]:
    from .config import FnSinkConfig

    return FnSinkConfig


def _codec_config() -> type[BaseModel]:
    from .config import FnCodecConfig

    return FnCodecConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from gateway_access.counts import metrics

    from . import guarantees

    return [
        Transport(
            "fn",
            source=Component(
                "fn",
                "Calls a function for every HTTP request and responds with the event that it returns (Fn Project).",
                _source_config,
                _source,
                guarantees=guarantees.SOURCE,
                metrics=metrics("fn"),
            ),
            sink=Component(
                "fn",
                "Sends events to a function, with a deadline, and handles what it returns as replies (Fn Project).",
                _sink_config,
                _sink,
                guarantees=guarantees.SINK,
            ),
        )
    ]


@hookimpl
def gateway_codecs() -> list[Component]:

    return [
        Component(
            "fn",
            "CloudEvents as functions write and read them: JSON in structured mode; returned events may be incomplete.",
            _codec_config,
            _codec,
        )
    ]
