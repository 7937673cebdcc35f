"""Delivery: attempts, waits, limits and dead letters of one subscription."""

from .limits import Budget
from .subscription import Subscription

__all__ = ["Budget", "Subscription"]
