"""The event loop of a gateway: uvloop, with lookups of host names in threads of their own.

uvloop looks names up in a pool of threads, two at a time, and waits for these when it closes. A name server that does
not answer holds such a thread for 10 s and more, so two such names would hold up every new connection to any other, and
the stop. Here each name has a thread of its own, one at a time, which holds up nobody else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLError
from threading import Thread
from typing import Any

import uvloop

MOST = 200
"""Lookups at once: if no name server answers at all, a gateway with many names should not run out of threads."""
AddressInfo = list[tuple[Any, ...]]
"""What `socket.getaddrinfo` returns."""
Asked = tuple[Any, ...]
Lookup = asyncio.Future[AddressInfo]


class EventLoop(uvloop.Loop):
    """Replaces what looks names up: `getaddrinfo` and `create_connection`, on which all clients build."""

    def __init__(self) -> None:
        super().__init__()
        self._lookups: dict[Asked, Lookup] = {}
        self._waiting: deque[tuple[Asked, Lookup]] = deque()
        self._running = 0

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> AddressInfo:
        """As asyncio's. Raises `socket.gaierror`, and `RuntimeError` where no thread can be had."""
        if not _is_name(host, port):
            return await super().getaddrinfo(host, port, family=family, type=type, proto=proto, flags=flags)
        return await self._look_up(port, host, family, type, proto, flags)

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        family: int = 0,
        proto: int = 0,
        flags: int = 0,
        server_hostname: str | None = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        """As asyncio's: of several addresses the first that takes the connection. Raises what `getaddrinfo` raises, and
        `OSError`, that of the first address."""
        if ssl and server_hostname is None:
            server_hostname = host
        options |= {"ssl": ssl, "server_hostname": server_hostname}
        if not _is_name(host, port):
            return await super().create_connection(
                protocol_factory, host, port, family=family, proto=proto, flags=flags, **options
            )
        failed: list[OSError] = []
        try:
            for entry in await self._look_up(port, host, family, socket.SOCK_STREAM, proto, flags):
                kind, _, protocol, _, (address, *_) = entry
                options |= {"family": kind, "proto": protocol}
                try:
                    return await super().create_connection(protocol_factory, address, port, **options)
                except OSError as e:
                    if isinstance(e, SSLError):
                        raise
                    failed.append(e)
            raise failed[0] if failed else OSError(f"{host} has no address")
        finally:
            failed.clear()  # an error refers to this frame

    async def _look_up(self, port: int | None, host: str, *how: int) -> AddressInfo:
        asked = (host, *how)
        lookup = self._lookups.get(asked)
        if lookup is None:
            lookup = self._lookups[asked] = self.create_future()
            self._waiting.append((asked, lookup))
            self._begin()
        found = await asyncio.shield(lookup)
        return [(*kind, (address[0], port or 0, *address[2:])) for *kind, address in found]

    def _begin(self) -> None:
        if not self._waiting or self._running == MOST:
            return
        asked, lookup = self._waiting.popleft()
        self._running += 1
        try:
            # a daemon: the process does not wait for it
            Thread(target=self._ask, args=(asked, lookup), name=f"lookup of {asked[0]}", daemon=True).start()
        except RuntimeError as e:  # no thread can be had
            self.call_soon(self._answer, asked, lookup, e)

    def _ask(self, asked: Asked, lookup: Lookup) -> None:
        found: AddressInfo | Exception
        host, *how = asked
        try:
            found = socket.getaddrinfo(host, None, *how)
        except Exception as e:
            found = e.with_traceback(None)  # which would refer to this frame, and the frame to the error
        with suppress(RuntimeError):  # the loop is closed
            self.call_soon_threadsafe(self._answer, asked, lookup, found)

    def _answer(self, asked: Asked, lookup: Lookup, found: AddressInfo | Exception) -> None:
        self._running -= 1
        del self._lookups[asked]
        if isinstance(found, Exception):
            lookup.set_exception(found)
            lookup.exception()  # those who asked may have gone
        else:
            lookup.set_result(found)
        self._begin()


def _is_name(host: Any, port: Any) -> bool:
    """Whether a lookup may take long; one of a service (`port="http"`) is left to uvloop."""
    if not isinstance(host, str) or not host or isinstance(port, str):
        return False
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return True
    return False
