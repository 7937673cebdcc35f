"""The event loop of a test server that runs in a thread."""

from __future__ import annotations

import asyncio


def run_to_the_end(loop: asyncio.AbstractEventLoop, *servers: asyncio.Server) -> None:
    """Runs the loop until it is stopped, then ends the servers and all tasks, and closes it."""
    loop.run_forever()
    for server in servers:
        server.close()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
