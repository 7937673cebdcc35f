"""A runner decides how a gateway runs. Without one it runs in the process that was started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Started:
    """A gateway that has started: its status, the ingress addresses of each broker, the addresses of its services."""

    status: dict[str, Any]
    ingress: dict[str, list[str]]
    addresses: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Runner:
    """The descriptor that a plugin offers.

    `name`      unique among runners.
    `summary`   one sentence for lists and pages.
    `wants`     whether it runs gateways with these settings. The first runner that does is used.
    `run`       runs the gateway: (config files, settings, what to call once it has started) -> exit code. It returns
                when the gateway has stopped. The config has been checked before. Raises `StartError`.
    """

    name: str
    summary: str
    wants: Callable[[Settings], bool]
    run: Callable[[Sequence[Path], Settings, Callable[[Started], None]], int]
