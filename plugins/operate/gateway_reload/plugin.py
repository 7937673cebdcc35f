"""The plugin's hook: its service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView, RunningService, Service


def _build(gateway: GatewayView) -> RunningService:
    from .service import ReloadService

    return ReloadService(gateway)


@hookimpl
def gateway_services() -> list[Service]:
    from gateway_core.contract.services import Service

    text = "Changes a running gateway to another config: when its files change, on SIGHUP, and for other services."
    return [Service("reload", text, _build, first=True)]
