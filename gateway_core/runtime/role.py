"""What a process is to the gateway that it runs."""

from __future__ import annotations

import os
import time
from typing import Any

from ..contract.services import Peers, Push
from ..contract.status import GatewayStatus


class NoPeers:
    """`Peers` of a gateway with one worker."""

    async def ask(self, service: str, question: Any) -> list[Any]:
        return []

    async def open(self, service: str, request: Any, push: Push) -> int:
        return 0

    async def close(self, number: int) -> None:
        return


class Role:
    """This process is the whole gateway. A runner with several processes gives each of them a role of its own.

    `worker` counts from 0; the first worker answers for all. `pid` and `began` (`time.monotonic`) are the gateway's.
    `locks` is True if this process locks the data directory, `fetches` if it runs the sources that run in one worker
    only.
    """

    def __init__(self) -> None:
        self.worker = 0
        self.pid = os.getpid()
        self.began = time.monotonic()
        self.locks = self.fetches = True
        self.peers: Peers = NoPeers()

    def others(self) -> list[GatewayStatus]:
        """The latest status of each other worker, for the first worker."""
        return []

    def whole(self, status: GatewayStatus) -> GatewayStatus:
        """The status of the whole gateway, made from that of this process."""
        return status

    def spread(self) -> None:
        """Makes the other workers reload, if this is the first one."""
