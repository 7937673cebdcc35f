"""What the plugin offers."""

from __future__ import annotations

from gateway_core.component import Component
from gateway_core.hookspecs import hookimpl

from .codec import build
from .config import CloudEventsConfig


@hookimpl
def gateway_codecs() -> list[Component]:
    return [
        Component(
            "cloudevents", "CloudEvents 1.0 to 0.1 in binary, structured and batch mode.", CloudEventsConfig, build
        )
    ]
