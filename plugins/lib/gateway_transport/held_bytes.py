"""The option that bounds how many bytes of events a source that fetches may hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway_core.contract.component import Config

MOST_HELD_BYTES = 64 * 1024 * 1024


class HeldBytesConfig(Config):
    """A base for the options of sources that fetch."""

    max_held_bytes: Annotated[int, Field(ge=64 * 1024)] = MOST_HELD_BYTES
    """About the most bytes of messages that were read and whose events are not safe yet. Beyond it, reading stops
    until half of it is free. A single larger message is still accepted."""
