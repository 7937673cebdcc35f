"""Limits for the clients of one listener."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway_core.contract.component import Config

Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=1024, le=1 << 30)]


class ListenerLimits(Config):
    """Limits per client and for all clients together. A request beyond a limit gets an error response, and its
    connection is closed."""

    max_header_bytes: Bytes = 64 * 1024
    """Maximum size of a request head, in bytes (431)."""
    max_headers: Annotated[int, Field(ge=8, le=10_000)] = 256
    """Maximum number of header fields in a request (431)."""
    header_timeout_s: Seconds = 10.0
    """Timeout for a TLS handshake, and then for a request's head, in seconds (408)."""
    body_timeout_s: Seconds = 30.0
    """Timeout for a request's body, in seconds (408)."""
    idle_timeout_s: Seconds = 75.0
    """How long a connection may be idle between requests, in seconds. Then it is closed."""
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of connections per worker and address, including TLS handshakes (503)."""
    max_unfinished_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = 64 * 1024 * 1024
    """Maximum memory for incomplete requests, in bytes, per worker and address. Above three quarters of it, reading
    such requests pauses for a moment; then the slowest are refused (503). It is never less than two requests of maximum
    size."""
