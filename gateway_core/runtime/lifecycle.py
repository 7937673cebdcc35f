"""What every process that runs a gateway does: the single one, and each worker."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from ..contract.errors import StartError
from .gateway import Gateway
from .reloader import Reloader
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Started:
    """A gateway that has started: its status, the ingress addresses of each broker, the addresses of its services."""

    status: dict[str, Any]
    ingress: dict[str, list[str]]
    addresses: Mapping[str, str]


def has_uvloop() -> bool:
    """Whether uvloop is installed."""
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return False
    return True


Task = Callable[[], Coroutine[Any, Any, None]]


def following(
    gateway: Gateway, reloader: Reloader, settings: Settings, spread: Callable[[], None], started: anyio.Event
) -> list[Task]:
    """The tasks that reload the first worker: after changes by the admin API, SIGHUP or the files. `spread` makes the
    other workers reload."""
    if settings.reload == "off" or not reloader.paths:
        return []
    gateway.follows(reloader, spread)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.ask)

    async def reload() -> None:
        await started.wait()
        await reloader.answer()

    async def watch() -> None:
        await started.wait()
        await reloader.watch()

    return [reload, watch] if settings.reload == "watch" else [reload]


async def live(gateway: Gateway, stop: anyio.Event, started: anyio.Event, *beside: Task) -> None:
    """Runs the gateway with its companion tasks. Raises `StartError`."""
    fault: StartError | None = None
    async with anyio.create_task_group() as tasks:
        for task in beside:
            tasks.start_soon(task)
        try:
            await gateway.run(stop, started)
        except StartError as e:
            fault = e
        tasks.cancel_scope.cancel()
    if fault is not None:
        raise fault


def spare_collector() -> None:
    """Makes the garbage collector ignore existing objects and run less often: events are never in cycles, but the many
    that the channel holds make each run slower."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
