"""Delivery: attempts, waits, limits and dead letters of one subscription."""

from .deliveries import Budget
from .subscription import Subscription

__all__ = ["Budget", "Subscription"]
