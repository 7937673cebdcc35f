"""Servers that a test may kill, and questions to a server from outside."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

import nats
import pytest
from gateway_dev import servers
from gateway_testing.suites import Kit
from nats.js import JetStreamContext

T = TypeVar("T")


@pytest.fixture
def own_nats(processes: None, tmp_path: Path) -> Iterator[servers.Server]:
    """A server that the test may kill."""
    with servers.nats(tmp_path / "nats") as server:
        yield server


class NatsKit(Kit):
    """A kit with a server, and a name for a stream that no other test uses."""

    def __init__(self, folder: Path, server: servers.Server) -> None:
        super().__init__(folder)
        self.server = server
        self.name = f"suite-{uuid5(NAMESPACE_URL, str(folder)).hex[:12]}"


@pytest.fixture
def kit(tmp_path: Path, nats_server: servers.Server) -> NatsKit:
    return NatsKit(tmp_path, nats_server)


def ask(url: str, question: Callable[[JetStreamContext], Coroutine[Any, Any, T]]) -> T:
    """Asks the server, in a thread with a loop of its own."""

    async def asked() -> T:
        nc = await nats.connect(url)
        try:
            return await question(nc.jetstream())
        finally:
            await nc.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asked()).result()


def pause(server: servers.Server) -> None:
    """It answers nothing until `resume`."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    os.waitpid(server.pid, os.WUNTRACED)  # a signal takes its time


def resume(server: servers.Server) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGCONT)
