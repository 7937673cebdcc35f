"""The durable names of the plugin; what needs the options' models is imported when a config has MQTT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway_core.contract.durable import DurableName, Noted, sources

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig


def _used(config: GatewayConfig) -> bool:
    return next(sources(config, "mqtt"), None) is not None


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterable[DurableName]:
    """See `DurableNames`."""
    if not _used(config):
        return []
    from . import sessions

    return sessions.names(config, noted)


def earlier(config: GatewayConfig, data_dir: Path) -> Iterable[DurableName]:
    """See `DurableNames`."""
    if not _used(config):
        return []
    from . import sessions

    return sessions.earlier(config, data_dir)


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: ends the session at the server, with what waits in it."""
    from .end_session import end_session

    end_session(name, config, data_dir)
