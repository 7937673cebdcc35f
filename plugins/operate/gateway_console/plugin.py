"""The plugin's hooks: its service, its section of the config, and the command that opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.config_extension import ConfigFinding, ConfigSection
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.errors import Fault
    from gateway_core.contract.services import GatewayView, RunningService, Service
    from gateway_core.contract.settings import Settings


def _console() -> Any:
    from .cli.app import console

    return console


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("console", "Open the console of a running gateway in a browser.", _console, panel="Look inside")]


@hookimpl
def gateway_config_sections() -> list[ConfigSection]:
    from gateway_core.contract.config_extension import ConfigSection

    from .config import SECTION, HideConfig

    return [ConfigSection(SECTION, "What the console hides of events, and from whom.", HideConfig)]


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    from .config import check

    return [check]


def _check_switch(settings: Settings) -> list[Fault]:
    from .switch import check_switch

    return check_switch()


@hookimpl
def gateway_settings_checks() -> list[Callable[[Settings], list[Fault]]]:
    return [_check_switch]


def _build(gateway: GatewayView) -> RunningService:
    from .service import ConsoleService

    return ConsoleService(gateway)


@hookimpl
def gateway_services() -> list[Service]:
    from gateway_core.contract.services import Service

    return [Service("console", "Pages of the admin API for browsers.", _build)]
