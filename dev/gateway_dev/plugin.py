"""The command `tidegate dev`."""

from __future__ import annotations

from typing import Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl


def _load() -> Any:
    from .commands import app

    return app


@hookimpl
def gateway_commands() -> list[Command]:
    summary = "Run services for a gateway on this machine, to try things out: Kafka, MQTT, NATS, RabbitMQ, Redis."
    return [Command("dev", summary, _load, panel="Try out")]
