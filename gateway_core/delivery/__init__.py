"""Delivery: attempts, waits, limits and dead letters of one subscription."""

from .subscription import Budget, Subscription

__all__ = ["Budget", "Subscription"]
