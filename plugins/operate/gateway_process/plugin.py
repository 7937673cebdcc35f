"""The plugin's hook: the service `process`, in every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView, RunningService, Service


def _service(gateway: GatewayView) -> RunningService:
    from .service import ProcessService

    return ProcessService(gateway)


@hookimpl
def gateway_services() -> list[Service]:
    from gateway_core.contract.services import Service

    return [
        Service("process", "Reports what each process uses, and raises its limit of open files.", _service, first=True)
    ]
