"""The codec's options."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from gateway_core.component import Config


class CloudEventsConfig(Config):
    """CloudEvents 1.0, 0.3, 0.2 and 0.1 in messages. Every mode and version is read; this says how events are written.

    An event keeps its version and names: to filters too, `eventType` of an event of 0.1 is `eventType`, not `type`."""

    mode: Literal["binary", "structured"] = "binary"
    """How events are written: attributes as headers and data as the body, or all in one JSON object."""
    attribute_headers: bool = False
    """With `mode: structured`, whether attributes are headers, too, as they are in binary mode: for receivers that look
    at headers only (Kafka binding section 3.3.3, HTTP binding section 3.2.3)."""

    @model_validator(mode="after")
    def _only_structured(self) -> CloudEventsConfig:
        if self.attribute_headers and self.mode == "binary":
            raise ValueError(
                "`attribute_headers` is for `mode: structured`; in binary mode attributes are headers anyway"
            )
        return self
