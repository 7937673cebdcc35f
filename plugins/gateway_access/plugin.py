"""The plugin's hooks: checks of who may send."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.config.model import GatewayConfig
    from gateway_core.contract.config_extension import ConfigFinding


def _check(config: GatewayConfig) -> Iterable[ConfigFinding]:
    from .exposure import check

    return check(config)


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    return [_check]
