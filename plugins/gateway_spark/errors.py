"""Faults of a Spark job."""

from __future__ import annotations


class SparkFault(Exception):
    """A fault with a message for people: one line that says what is wrong and what to do."""
