"""Chooses how the plugin gets what it needs of aiokafka."""

from __future__ import annotations

from functools import cache

from .needs import Ways
from .private.ways import PrivateWays


@cache
def ways() -> Ways:
    """The ways for the version of aiokafka that is installed."""
    return PrivateWays()
