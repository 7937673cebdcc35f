"""The plugin's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .config import WebSocketSinkConfig, WebSocketSourceConfig

_LIBRARY: dict[str, Any] = {"extra": "websocket", "requires": ("websockets",), "schemes": ("ws", "wss")}


def _source(options: WebSocketSourceConfig, context: BuildContext) -> Any:
    from .source import WebSocketSource

    return WebSocketSource(options, context)


def _sink(options: WebSocketSinkConfig, context: BuildContext) -> Any:
    from .sink import WebSocketSink

    return WebSocketSink(options, context)


def _source_config() -> type[BaseModel]:
    from .config import WebSocketSourceConfig

    return WebSocketSourceConfig


def _sink_config() -> type[BaseModel]:
    from .config import WebSocketSinkConfig

    return WebSocketSinkConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from gateway_access.counts import metrics

    from . import guarantees

    return [
        Transport(
            "websocket",
            source=Component(
                "websocket",
                "Receives events over WebSocket connections that it accepts or opens (CloudEvents WebSockets binding).",
                _source_config,
                _source,
                guarantees=guarantees.SOURCE,
                metrics=metrics("websocket"),
                **_LIBRARY,
            ),
            sink=Component(
                "websocket",
                "Sends events over WebSocket connections that it opens or accepts (CloudEvents WebSockets binding).",
                _sink_config,
                _sink,
                guarantees=guarantees.SINK,
                **_LIBRARY,
            ),
        )
    ]
