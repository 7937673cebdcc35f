"""A runner decides how a gateway runs. Without one it runs in the process that was started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .status import GatewayStatus

if TYPE_CHECKING:
    from pathlib import Path

    from .configs import Registry
    from .loaded import Loaded
    from .settings import Settings


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
