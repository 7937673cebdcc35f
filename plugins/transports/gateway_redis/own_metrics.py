"""The plugin's own metrics."""

from __future__ import annotations

from gateway_transport.connection import lost_metric

LOST = lost_metric("redis", "Redis")
