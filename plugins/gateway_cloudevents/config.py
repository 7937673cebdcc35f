"""The codec's options."""

from __future__ import annotations

from typing import Literal

from gateway_core.component import Config


class CloudEventsConfig(Config):
    """CloudEvents in messages. Every mode and version is read; this says how events are written."""

    mode: Literal["binary", "structured"] = "binary"
    """How events are written: attributes as headers and data as the body, or all in one JSON object."""
