"""The plugin's hooks: its service, the commands that use it, and checks of its address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.config_extension import ConfigFinding, ConfigSection
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.errors import Fault, Probe
    from gateway_core.contract.services import GatewayView, RunningService, Service
    from gateway_core.contract.settings import Settings

_APPLY = "Create or change triggers of a running gateway, all or none: a section `triggers:`, or Knative manifests."


def _command(name: str) -> Callable[[], Any]:
    def load() -> Any:
        from .cli import app

        return getattr(app, name)

    return load


@hookimpl
def gateway_commands() -> list[Command]:
    def look(name: str, summary: str) -> Command:
        return Command(name, summary, _command(name), panel="Look inside")

    def change(name: str, summary: str) -> Command:
        return Command(name, summary, _command(name), panel="Change")

    return [
        look("status", "Show a running gateway: brokers, triggers, lag. `tidegate top` shows rates, live."),
        look(
            "get",
            "Show brokers, triggers, bridges and policies of a running gateway, with their conditions.",
        ),
        change("apply", _APPLY),
        change("delete", "Delete an applied trigger."),
        change(
            "pause", "Pause a trigger: no attempt starts, and its events stay in the channel, also across restarts."
        ),
        change("resume", "Resume a paused trigger where it stopped."),
        change(
            "reload",
            "Make a running gateway read its config again. A config with errors is reported and changes nothing.",
        ),
        change("login", "Log in to the admin API of a gateway with OpenID Connect (device flow, RFC 8628)."),
        change("logout", "Forget the login at a gateway."),
        change("admin", "Manage who may call the admin API."),
    ]


def _build(gateway: GatewayView) -> RunningService:
    from .service import AdminService

    return AdminService(gateway)


@hookimpl
def gateway_services() -> list[Service]:
    from gateway_core.contract.services import Service

    return [Service("admin", "The admin API: status, metrics, health, and changes to a running gateway.", _build)]


@hookimpl
def gateway_config_files() -> list[Callable[[Settings], list[Path]]]:
    from .applied import config_files

    return [config_files]


@hookimpl
def gateway_config_sections() -> list[ConfigSection]:
    from gateway_core.contract.config_extension import ConfigSection

    from . import operators_config, permits

    return [
        ConfigSection(
            permits.SECTION, "What triggers that are applied by the admin API may reach.", permits.PermitsConfig
        ),
        ConfigSection(
            operators_config.SECTION, "Who may call the admin API, and in which role.", operators_config.OperatorsConfig
        ),
    ]


def _check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    from gateway_core.contract.config_extension import ConfigFinding

    from . import operators_config
    from .permits import ENTRY, SECTION

    yield from operators_config.check(config)
    for name in config.section(SECTION):
        if name != ENTRY:
            yield ConfigFinding(f"`{name}` means nothing here", (SECTION, name), f"write `{ENTRY}`")


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    return [_check]


@hookimpl
def gateway_settings_checks() -> list[Callable[[Settings], list[Fault]]]:
    from .applied import check_settings as check_applied
    from .guard import check_settings

    return [check_settings, check_applied]


def _probe(config: GatewayConfig, settings: Settings) -> list[Probe]:
    from .guard import probe

    return probe(settings)


@hookimpl
def gateway_connection_checks() -> list[Callable[[GatewayConfig, Settings], list[Probe]]]:
    return [_probe]
