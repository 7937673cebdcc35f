"""The plugin's hooks: its service, its commands, and what `tidegate check --connect` tries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.errors import Probe
    from gateway_core.contract.services import GatewayView, RunningService, Service
    from gateway_core.contract.settings import Settings

_SUMMARIES = {
    "explain": "Explain what the gateway would do with an event: which triggers match, what they would send, the "
    "retries. Nothing is sent.",
    "why": "Show what happened to an event: where it is, and for each trigger whether it was delivered, or why not.",
    "delayed": "List events that wait until they are due, cancel them, or deliver them now.",
    "tap": "Show events live, as a running gateway accepts them, until Ctrl-C.",
    "top": "Show rates and durations of a running gateway, live: q quits, s changes the sort order.",
    "graph": "Draw the topology: sources, brokers, triggers with their filters, sinks, dead letters, bridges.",
}
_INSTALLED = {
    "plugins": "List all components that are installed, and what they need and promise.",
    "schema": "Print the JSON Schema of the config, for editors.",
}


def _command(name: str) -> Callable[[], Any]:
    def load() -> Any:
        from .cli import app

        return getattr(app, name)

    return load


@hookimpl
def gateway_commands() -> list[Command]:
    return [
        *(Command(name, summary, _command(name), panel="Look inside") for name, summary in _SUMMARIES.items()),
        *(Command(name, summary, _command(name), panel="This installation") for name, summary in _INSTALLED.items()),
    ]


def _probe(config: GatewayConfig, settings: Settings) -> list[Probe]:
    from .connect import probe_all

    return probe_all(config, settings)


@hookimpl
def gateway_connection_checks() -> list[Callable[[GatewayConfig, Settings], list[Probe]]]:
    return [_probe]


def _build(gateway: GatewayView) -> RunningService:
    from .service import InspectService

    return InspectService(gateway)


@hookimpl
def gateway_services() -> list[Service]:
    from gateway_core.contract.services import Service

    return [Service("inspect", "Explain, why, tap and graph: what happens to events and why.", _build)]
