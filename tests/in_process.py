"""Runs a gateway in the process of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from gateway_core.runtime.gateway import Gateway

LIMIT_S = 60.0


@asynccontextmanager
async def started(gateway: Gateway) -> AsyncIterator[Gateway]:
    """The gateway, running, until the end of the block."""
    stop, begun = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run, stop, begun)
        with anyio.fail_after(LIMIT_S):
            await begun.wait()
        yield gateway
        stop.set()
