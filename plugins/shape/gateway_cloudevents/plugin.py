"""The plugin's hook."""

from __future__ import annotations

from gateway_core.contract.component import Component
from gateway_core.contract.hookspecs import hookimpl


@hookimpl
def gateway_codecs() -> list[Component]:
    from .codec import build
    from .config import CloudEventsConfig

    return [
        Component(
            "cloudevents", "CloudEvents 1.0 to 0.1 in binary, structured and batch mode.", CloudEventsConfig, build
        )
    ]
