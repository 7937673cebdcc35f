"""How a runner runs a gateway in its own process. The core does it; no library is imported before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractContextManager

    from .runners import ConfigRead, Started
    from .stopping import StopSignals


class InProcess(Protocol):
    """Runs a gateway in this process."""

    def __call__(
        self,
        config: ConfigRead,
        on_started: Callable[[Started], None],
        watch: Callable[[StopSignals], AbstractContextManager[None]] = ...,
        loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> int:
        """See `run_process`."""


def run_process(
    config: ConfigRead,
    on_started: Callable[[Started], None],
    watch: Callable[[StopSignals], AbstractContextManager[None]] = lambda signals: nullcontext(),
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Runs a gateway in this process, as without a runner: on a new `loop`, until a signal, inside `watch`. Returns the
    exit code. Raises `StartError`."""
    return _in_process()(config, on_started, watch, loop)


def run_by(in_process: Callable[[], InProcess]) -> None:
    """Sets what runs gateways (called by the core). It is imported when one is run."""
    global _in_process
    _in_process = in_process


def _in_process() -> InProcess:
    raise NotImplementedError("the core is not imported")  # `gateway_core` calls `run_by` when it is
