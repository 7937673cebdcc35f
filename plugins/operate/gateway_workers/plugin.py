"""The plugin's hooks: runners for gateways with several workers, and with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.runners import ConfigRead, Runner, Started


def _supervised(config: ConfigRead, on_started: Callable[[Started], None]) -> int:
    import anyio

    from .event_loop import EventLoop
    from .supervisor import Supervisor

    return anyio.run(Supervisor(config, on_started).run, backend_options={"loop_factory": EventLoop})


def _watched(config: ConfigRead, on_started: Callable[[Started], None]) -> int:
    from gateway_core.contract.in_process import run_process

    from .event_loop import EventLoop
    from .watchdog import Watchdog

    watchdog = Watchdog(config.settings.watchdog_s, config.settings.drain_timeout_s)

    def started(gateway: Started) -> None:
        watchdog.started()
        on_started(gateway)

    return run_process(config, started, watchdog.watch, EventLoop)


@hookimpl
def gateway_runners() -> list[Runner]:
    from gateway_core.contract.runners import Runner

    several = "Several worker processes, and a supervisor that starts, watches and replaces them."
    one = "One process, in which a thread watches whether it hangs."
    return [
        Runner("workers", several, lambda settings: settings.workers > 1, _supervised),
        Runner("watched", one, lambda settings: settings.workers == 1, _watched, fallback=True),
    ]
