"""Closes what belongs to aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def closed(closing: Coroutine[Any, Any, object]) -> BaseException | None:
    """Waits for it; returns what it raised. A request of aiokafka's that waits for its retry ends with a CancelledError
    that gets out of `stop`: it would count as ours, and end all of the gateway's tasks."""
    [found] = await asyncio.gather(closing, return_exceptions=True)
    return found if isinstance(found, BaseException) else None
