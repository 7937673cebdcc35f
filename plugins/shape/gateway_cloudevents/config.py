"""The codec's options."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from gateway_core.contract.component import Config


class CloudEventsConfig(Config):
    """CloudEvents 1.0, 0.3, 0.2 and 0.1 in messages. Every mode and version can be read; these options control writing.
    An event keeps its version and names. Filters and keys may use those of 1.0 too: `type` of a 0.1 event is its
    `eventType`."""

    mode: Literal["binary", "structured"] = "binary"
    """How to write events: attributes as headers and data as the body, or everything in one JSON object."""
    attribute_headers: bool = False
    """With `mode: structured`, whether to add attributes as headers, as in binary mode, for receivers that only read
    headers (Kafka binding section 3.3.3, HTTP binding section 3.2.3)."""

    @model_validator(mode="after")
    def _only_structured(self) -> CloudEventsConfig:
        if self.attribute_headers and self.mode == "binary":
            raise ValueError(
                "`attribute_headers` needs `mode: structured`; in binary mode attributes are always headers"
            )
        return self
