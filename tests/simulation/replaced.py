"""What the gateway's modules get in place of time, threads, sockets and randomness, during a run.

Their own code stays as it is; only the names `time`, `threading`, `socket` … in them lead to the simulation.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import importlib
import os
import pkgutil
import queue
import random
import secrets
import select
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, MutableSet
from contextlib import contextmanager, suppress
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Protocol

import anyio
from anyio import to_thread
from gateway_audit_log import log as audit
from gateway_serving import descriptors as connections

from . import threads

MIB = 1024 * 1024


class Simulation(Protocol):
    """What the names lead to."""

    random: random.Random
    descriptors: dict[int, str]
    """Files that the gateway has opened itself, with their paths."""

    @property
    def socket(self) -> Any:
        """Instead of the module."""

    @property
    def select(self) -> Any:
        """Instead of the module."""

    def monotonic(self) -> float:
        """Seconds that never go backwards."""

    def now_ns(self) -> int:
        """Unix time as the gateway's machine has it."""


def _like(module: ModuleType, **changes: Any) -> Any:
    return SimpleNamespace(**{**vars(module), **changes})


def _names(simulation: Simulation) -> dict[int, Any]:
    """What replaces what, by identity."""

    def now_s() -> float:
        return simulation.now_ns() / 1e9

    def urandom(size: int) -> bytes:
        return simulation.random.randbytes(size)

    def token_hex(size: int = 32) -> str:
        return urandom(size).hex()

    monotonic = simulation.monotonic
    real: list[tuple[Any, Any]] = [
        (
            time,
            _like(
                time,
                monotonic=monotonic,
                perf_counter=monotonic,
                time=now_s,
                time_ns=simulation.now_ns,
                sleep=threads.sleep,
            ),
        ),
        (fcntl, _like(fcntl, flock=threads.flock)),
        (time.monotonic, monotonic),
        (time.time_ns, simulation.now_ns),
        (time.time, now_s),
        (time.perf_counter, monotonic),
        (threading, _like(threading, Thread=threads.Thread, Condition=threads.Condition)),
        (queue.SimpleQueue, threads.SimpleQueue),
        (concurrent.futures.ThreadPoolExecutor, threads.Pool),
        (socket, simulation.socket),
        (select, simulation.select),
        (secrets, _like(secrets, token_hex=token_hex, token_bytes=urandom)),
        (uuid, _like(uuid, uuid4=lambda: uuid.UUID(bytes=urandom(16), version=4))),
    ]
    return {id(original): (original, other) for original, other in real}


PACKAGES = (
    "gateway_core", "gateway_log", "gateway_http", "gateway_serving", "gateway_access", "gateway_transport",
    "gateway_cloudevents", "gateway_basics", "gateway_cesql", "gateway_file", "gateway_deadletter", "gateway_audit",
    "gateway_audit_log", "gateway_json", "gateway_options", "gateway_signing",
    "gateway_reload", "gateway_process", "gateway_workers", "gateway_mqtt", "gateway_nats", "gateway_schedule",
)  # fmt: skip
"""Their modules are imported before the first run: one that is imported later would have the real names."""

ORDERED = (
    "gateway_http.pool", "gateway_serving.acceptor", "gateway_serving.budget", "gateway_core.delivery.deliveries",
    "gateway_file.line_writer", "anyio._backends._asyncio",
)  # fmt: skip
"""Modules with sets of objects whose order would depend on where they are in memory."""


class Ordered(MutableSet[Any]):
    """A `set` in the order in which its items came."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items = dict.fromkeys(items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, value: Any) -> None:
        self._items[value] = None

    def discard(self, value: Any) -> None:
        self._items.pop(value, None)

    def update(self, items: Iterable[Any]) -> None:
        """As of `set`."""
        self._items.update(dict.fromkeys(items))

    def copy(self) -> Ordered:
        """As of `set`."""
        return Ordered(self)


OURS = ("gateway_", "aiokafka")
"""What the names of modules begin with that get other names."""

_found: list[tuple[dict[str, Any], str, int]] = []
_defaults: list[tuple[FunctionType, tuple[Any, ...]]] = []
"""Functions that have one of the names as the default of a parameter, with their own defaults."""
_owners: dict[int, threads.Threads | None] = {}
"""The processes that have opened descriptors."""
_seen: set[str] = set()
_modules = 0


def look() -> None:
    """Finds the names in all modules of the gateway."""
    global _modules
    if len(sys.modules) == _modules:
        return
    if not _seen:
        for package in PACKAGES:
            for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
                if not found.name.endswith("__main__"):
                    with suppress(ImportError):
                        importlib.import_module(found.name)
    wanted = {id(thing) for thing in (
        *(time, time.monotonic, time.time_ns, time.time, time.perf_counter, threading, queue.SimpleQueue, fcntl),
        *(concurrent.futures.ThreadPoolExecutor, socket, select, secrets, uuid),
    )}  # fmt: skip
    for name, module in list(sys.modules.items()):
        if name in _seen or not name.startswith(OURS):
            continue
        _seen.add(name)
        space = vars(module)
        _found.extend((space, key, id(value)) for key, value in list(space.items()) if id(value) in wanted)
        functions = [(function, function.__defaults__ or ()) for function in _functions(name, space)]
        _defaults.extend((function, own) for function, own in functions if any(id(value) in wanted for value in own))
    _modules = len(sys.modules)


def _functions(module: str, space: dict[str, Any]) -> Iterator[FunctionType]:
    """Those of a module, and of its classes."""
    for value in list(space.values()):
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield value
        elif isinstance(value, type) and value.__module__ == module:
            yield from (method for method in vars(value).values() if isinstance(method, FunctionType))


async def _run_sync(
    func: Callable[..., Any], *args: Any, abandon_on_cancel: bool = False, cancellable: Any = None, limiter: Any = None
) -> Any:
    import asyncio

    loop = asyncio.get_running_loop()
    with anyio.CancelScope(shield=not abandon_on_cancel):
        return await loop.run_in_executor(None, partial(func, *args))


def _opening(descriptors: dict[int, str], opened: Any, closed: Any) -> tuple[Any, Any]:
    """`os.open` and `os.close`, which note what is open."""

    def note(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        descriptor: int = opened(path, flags, mode, **options)
        if sys._getframe(1).f_globals["__name__"].startswith("gateway_"):
            descriptors[descriptor] = os.path.realpath(path)
            _owners[descriptor] = threads.Threads.current
        return descriptor

    def close(descriptor: int) -> None:
        descriptors.pop(descriptor, None)
        closed(descriptor)

    return note, close


def unlock_all(descriptors: dict[int, str], owner: threads.Threads | None = None) -> None:
    """The process that opened these is gone, and its locks with it. Its objects may still close them. With an `owner`,
    only what this one of several processes has opened."""
    for descriptor, path in descriptors.items():
        if owner in (None, _owners.get(descriptor)) and _leads_to(descriptor, path):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def close_all(descriptors: dict[int, str]) -> None:
    """Closes what is left of all processes."""
    for descriptor, path in list(descriptors.items()):
        if _leads_to(descriptor, path):
            os.close(descriptor)
    descriptors.clear()


def _leads_to(descriptor: int, path: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)") == path
    except OSError:
        return False


def forget() -> None:
    """A new process: what modules remember of the process before is gone."""
    audit._logs.clear()
    # else the next one closes connections of the one before, on a loop that is closed
    connections._holders.clear()
    connections._lenders.clear()
    connections._shortage = connections._Shortage()


@contextmanager
def replaced(simulation: Simulation) -> Iterator[None]:
    """Inside, the gateway's modules have the simulated names."""
    look()
    names = _names(simulation)
    for space, key, original in _found:
        space[key] = names[original][1]
    for function, own in _defaults:
        function.__defaults__ = tuple(names[id(value)][1] if id(value) in names else value for value in own)
    ordered = [vars(importlib.import_module(name)) for name in ORDERED]
    for space in ordered:
        space["set"] = Ordered
    state, run_sync, before = random.getstate(), to_thread.run_sync, (os.open, os.close, os.urandom)
    random.seed(simulation.random.random())
    to_thread.run_sync = _run_sync  # type: ignore[assignment]
    os.open, os.close = _opening(simulation.descriptors, *before[:2])
    os.urandom = simulation.random.randbytes
    try:
        yield
    finally:
        os.open, os.close, os.urandom = before
        for space, key, original in _found:
            space[key] = names[original][0]
        for function, own in _defaults:
            function.__defaults__ = own
        for space in ordered:
            del space["set"]
        to_thread.run_sync = run_sync
        random.setstate(state)
