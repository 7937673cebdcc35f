"""How long to wait before a retry. The docs, the tests and `explain` share this formula."""

from __future__ import annotations

from .config_model import DeliveryConfig

SLOWER_S = 900.0
"""After this time, and each time it has doubled, the longest wait doubles (`DeliveryConfig.slows_down`); in seconds."""
LONGEST_S = 300.0
"""Up to this wait, in seconds."""


def cap_s(policy: DeliveryConfig, elapsed_s: float) -> float:
    """The longest wait of an event whose first attempt failed `elapsed_s` seconds ago."""
    cap, after = policy.backoff_max_s, SLOWER_S
    if elapsed_s >= after and policy.slows_down:
        while elapsed_s >= after and cap < LONGEST_S:
            cap, after = min(LONGEST_S, 2 * cap), 2 * after
    return cap


def ceiling_s(policy: DeliveryConfig, retry: int, elapsed_s: float = 0.0) -> float:
    """The longest wait before retry n, in seconds: `min(max, delay * 2^(n-1))`, linear `min(max, delay * n)`."""
    # 2.0 ** 1023 is the last power that a float holds; the cap is reached long before
    factor = 2.0 ** min(retry - 1, 1023) if policy.backoff == "exponential" else float(retry)
    return min(cap_s(policy, elapsed_s), policy.backoff_delay_s * factor)


def wait_s(policy: DeliveryConfig, retry: int, draw: float, elapsed_s: float = 0.0) -> float:
    """The wait before this retry, in seconds, drawn uniformly from the upper half of its ceiling; `draw` is a random
    number in [0, 1). The spread keeps senders that failed together from retrying together."""
    return ceiling_s(policy, retry, elapsed_s) * (0.5 + 0.5 * draw)
