"""Reports what the process uses, as a service of the gateway."""

from __future__ import annotations

from gateway_core.contract.services import GatewayView, RunningService
from gateway_core.contract.status import ProcessStatus

from .process import process_status, raise_descriptor_limit


class ProcessService(RunningService):
    """One in each worker. It raises the process's limit of open files before anything starts."""

    def __init__(self, gateway: GatewayView) -> None:
        raise_descriptor_limit()
        self._worker = gateway.worker
        self._on = gateway.settings.metrics

    def process(self) -> ProcessStatus | None:
        return process_status(self._worker) if self._on else None
