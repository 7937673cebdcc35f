"""The plugin's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView, RunningService, Service


def _replay() -> Any:
    from .cli.app import replay

    return replay


def _rewind() -> Any:
    from .cli.app import rewind

    return rewind


@hookimpl
def gateway_commands() -> list[Command]:
    return [
        Command("replay", "Send past events to one trigger again.", _replay, panel="Look after data"),
        Command("rewind", "Set a trigger back to a time.", _rewind, panel="Look after data"),
    ]


def _build_service(gateway: GatewayView) -> RunningService:
    from .service import ReplayService

    return ReplayService(gateway)


@hookimpl
def gateway_services() -> list[Service]:
    from gateway_core.contract.services import Service

    return [Service("replay", "Replays past events to one trigger, and sets triggers back.", _build_service)]
