"""Faults of a Spark job."""

from __future__ import annotations


class SparkFault(Exception):
    """A fault with a message for people: one line that says what is wrong and what to do."""


NO_JVM = "Spark's JVM did not start"
"""What a driver reports then; the JVM wrote the reason to standard error."""
