"""How much the clients of one listener may ask for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..component import Config

Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=1024, le=1 << 30)]


class ListenerLimits(Config):
    """How much one client may ask for, and all of them together. What goes beyond is answered and the connection
    closed."""

    max_header_bytes: Bytes = 64 * 1024
    """The longest request head, in bytes (431)."""
    max_headers: Annotated[int, Field(ge=8, le=10_000)] = 256
    """The most header fields in a request (431)."""
    header_timeout_s: Seconds = 10.0
    """How long a TLS handshake, and then a request's head, may take to come, in seconds (408)."""
    body_timeout_s: Seconds = 30.0
    """How long a request's body may take to come, in seconds (408)."""
    idle_timeout_s: Seconds = 75.0
    """How long a connection may be silent between requests, in seconds (closed)."""
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """The most connections at once, per worker and address, TLS handshakes included (503)."""
    max_unfinished_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = 64 * 1024 * 1024
    """The most memory for requests that have not come in completely, in bytes, per worker and address. From three
    quarters of it on such requests are read no further for a moment; then the slowest of them are refused (503). It is
    never less than two requests of the greatest size."""
