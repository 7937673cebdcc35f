"""When a delivery would be tried again: the retry plan of a policy."""

from __future__ import annotations

from ..config.model import DeliveryConfig
from . import backoff


def retry_plan(policy: DeliveryConfig) -> list[tuple[float, float]]:
    """For retry 1, 2, …: the shortest and the longest wait before it, in seconds. A `Retry-After` (up to
    `retry_after_max_s`), limits and order may make it longer."""
    return [(backoff.wait_s(policy, n, 0.0), backoff.ceiling_s(policy, n)) for n in range(1, policy.retry + 1)]
