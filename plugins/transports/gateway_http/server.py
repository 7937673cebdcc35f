"""Listening sockets: one per address, shared by the sources on that address, with a table of paths."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from weakref import WeakKeyDictionary

from anyio.abc import TaskGroup
from gateway_serving.listen import split_listen
from gateway_serving.sockets import bind

from gateway_core.contract.errors import StartError

from .config import HttpSourceConfig
from .endpoint import Endpoint
from .listener import HttpListener, Listener
from .protocol import Connection


class NativeListener(HttpListener):
    """The native engine."""

    def _connection(self) -> asyncio.Protocol:
        return Connection(self)


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Listener]] = WeakKeyDictionary()


async def attach(
    options: HttpSourceConfig, endpoint: Endpoint, make: Callable[[], Listener], workers: int, tasks: TaskGroup
) -> Listener:
    """Adds an endpoint to its address; the first endpoint opens the sockets. Raises `StartError`."""
    shared = _listeners.setdefault(asyncio.get_running_loop(), {})
    listener = shared.get(options.listen)
    if listener is not None:
        _check_shared(listener, options, endpoint)
        listener.routes[endpoint.target] = endpoint
        return listener
    listener = make()
    listener.routes[endpoint.target] = endpoint
    fixed = split_listen(options.listen)[1] != 0
    if fixed:  # before the first await, so that the next source finds it
        shared[options.listen] = listener
    try:
        await _open(listener, bind(options.listen, workers > 1), tasks)
    except OSError as e:
        if fixed:
            del shared[options.listen]
        raise StartError(f"{listener.owner}: can't listen on {options.listen}: {e.strerror or e}") from e
    return listener


async def _open(listener: Listener, sockets: list[socket.socket], tasks: TaskGroup) -> None:
    listener.port = sockets[0].getsockname()[1]
    listener.spare = [sock.dup() for sock in sockets]
    await listener.start(sockets, tasks)


async def follow(
    listener: Listener,
    gone: Endpoint,
    options: HttpSourceConfig,
    endpoint: Endpoint,
    make: Callable[[], Listener],
    tasks: TaskGroup,
) -> Listener | None:
    """Replaces an endpoint at the same address, on the same listener or on a new one that takes over the sockets: no
    client finds the address closed. Returns None if other sources share the listener and it can't be changed."""
    if endpoint.target != gone.target and endpoint.target in listener.routes:
        return None
    if _alike(options, listener.options):
        del listener.routes[gone.target]
        listener.routes[endpoint.target] = endpoint
        await listener.drain(gone)
        return listener
    if len(listener.routes) > 1:
        return None
    successor = make()
    successor.routes[endpoint.target] = endpoint
    sockets, listener.spare = listener.spare, []
    await _open(successor, sockets, tasks)
    shared = _listeners.get(asyncio.get_running_loop(), {})
    if shared.get(options.listen) is listener:
        shared[options.listen] = successor
    await listener.stop()
    listener.routes.clear()
    return successor


def _alike(options: HttpSourceConfig, others: HttpSourceConfig) -> bool:
    same = {"server", "tls", "limits", "hosts"}
    return options.model_dump(include=same) == others.model_dump(include=same)


def _check_shared(listener: Listener, options: HttpSourceConfig, endpoint: Endpoint) -> None:
    where = f"{endpoint.owner}: {options.listen}"
    if (taken := listener.routes.get(endpoint.target)) is not None:
        raise StartError(f"{where} already serves the path {endpoint.path!r} for {taken.owner}")
    if not _alike(options, listener.options):
        raise StartError(f"{where} is shared with {listener.owner}: server, tls, limits and hosts must be the same")


async def detach(listener: Listener, endpoint: Endpoint) -> None:
    """Removes an endpoint from its address; the last one closes the sockets."""
    if listener.routes.get(endpoint.target) is not endpoint:
        return
    if len(listener.routes) > 1:
        del listener.routes[endpoint.target]
        await listener.drain(endpoint)
        return
    shared = _listeners.get(asyncio.get_running_loop(), {})
    if shared.get(listener.options.listen) is listener:
        del shared[listener.options.listen]
    for sock in listener.spare:
        sock.close()
    try:
        await listener.stop()
    finally:
        listener.routes.clear()
