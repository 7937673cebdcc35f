"""A runner decides how a gateway runs. Without one it runs in the process that was started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .configs import Registry
    from .loaded import Loaded
    from .settings import Settings
    from .status import GatewayStatus
    from .stopping import StopSignals


@dataclass(frozen=True, slots=True)
class Started:
    """A gateway that has started: its status, the ingress addresses of each broker, the addresses of its services."""

    status: GatewayStatus
    ingress: dict[str, list[str]]
    addresses: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigRead:
    """A config as it was read from `files` before the gateway started, at `since_ns` (Unix time) or later."""

    files: list[Path]
    settings: Settings
    registry: Registry
    loaded: Loaded
    since_ns: int


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


@dataclass(frozen=True, slots=True)
class Runner:
    """The descriptor that a plugin offers.

    `name`      unique among runners.
    `summary`   one sentence for lists and pages.
    `wants`     whether it runs gateways with these settings. The first runner that does is used.
    `run`       runs the gateway: (its config, what to call once the gateway has started) -> exit code. It returns when
                the gateway has stopped. Raises `StartError`.
    `fallback`  True if it only runs gateways that no other runner wants.
    """

    name: str
    summary: str
    wants: Callable[[Settings], bool]
    run: Callable[[ConfigRead, Callable[[Started], None]], int]
    fallback: bool = False


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
