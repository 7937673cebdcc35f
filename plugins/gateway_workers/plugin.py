"""The plugin's hooks: a runner for gateways with several workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.runners import Runner, Started
    from gateway_core.runtime.settings import Settings


def _run(files: Sequence[Path], settings: Settings, on_started: Callable[[Started], None]) -> int:
    import anyio

    from .supervisor import Supervisor

    supervisor = Supervisor(files, settings, on_started)
    return anyio.run(supervisor.run, backend_options={"use_uvloop": True})


@hookimpl
def gateway_runners() -> list[Runner]:
    from gateway_core.contract.runners import Runner

    summary = "Several worker processes, and a supervisor that starts, watches and replaces them."
    return [Runner("workers", summary, lambda settings: settings.workers > 1, _run)]
