"""How long to wait before a retry. The docs, the tests and `explain` share this formula."""

from __future__ import annotations

from ..config.model import DeliveryConfig


def ceiling_s(policy: DeliveryConfig, retry: int) -> float:
    """The longest wait before retry n, in seconds: `min(max, delay * 2^(n-1))`, linear `min(max, delay * n)`."""
    # 2.0 ** 1023 is the last power that a float holds; the cap is reached long before
    factor = 2.0 ** min(retry - 1, 1023) if policy.backoff == "exponential" else float(retry)
    return min(policy.backoff_max_s, policy.backoff_delay_s * factor)


def wait_s(policy: DeliveryConfig, retry: int, draw: float) -> float:
    """The wait before this retry, in seconds, drawn uniformly from the upper half of its ceiling; `draw` is a random
    number in [0, 1). The spread keeps senders that failed together from retrying together."""
    return ceiling_s(policy, retry) * (0.5 + 0.5 * draw)
