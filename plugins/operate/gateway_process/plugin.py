"""The plugin's hook: the service `process`, in every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.services import RunningService, Service
    from gateway_core.runtime.gateway import Gateway


def _service(gateway: Gateway) -> RunningService:
    from gateway_core.contract.services import RunningService

    from .process import process_status, raise_descriptor_limit

    raise_descriptor_limit()
    if gateway.settings.metrics:
        gateway.process = lambda: process_status(gateway.worker)
    return RunningService()


@hookimpl
def gateway_services() -> list[Service]:
    from gateway_core.contract.services import Service

    return [
        Service("process", "Reports what each process uses, and raises its limit of open files.", _service, first=True)
    ]
