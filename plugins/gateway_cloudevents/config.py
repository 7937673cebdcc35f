"""The codec's options."""

from __future__ import annotations

from typing import Literal

from gateway_core.component import Config


class CloudEventsConfig(Config):
    """CloudEvents 1.0, 0.3, 0.2 and 0.1 in messages. Every mode and version is read; this says how events are written.

    An event keeps its version and names: to filters too, `eventType` of an event of 0.1 is `eventType`, not `type`."""

    mode: Literal["binary", "structured"] = "binary"
    """How events are written: attributes as headers and data as the body, or all in one JSON object."""
