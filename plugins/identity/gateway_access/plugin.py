"""The plugin's hooks: the section `policies`, and checks of who may send."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.component import BuildContext, SourceRef
    from gateway_core.contract.config_extension import ConfigFinding, ConfigSection
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.interfaces import Admission


def _check(config: GatewayConfig) -> Iterable[ConfigFinding]:
    from . import empty, exposure, policies, quota_check

    yield from empty.check(config)
    yield from exposure.check(config)
    yield from policies.check(config)
    yield from quota_check.check(config)


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    return [_check]


@hookimpl
def gateway_config_sections() -> list[ConfigSection]:
    from gateway_core.contract.config_extension import ConfigSection

    from .policies import SECTION, PolicyConfig

    return [ConfigSection(SECTION, "Who may send which events to which brokers.", PolicyConfig)]


def _admission(config: GatewayConfig, ref: SourceRef, context: BuildContext) -> Admission | None:
    from .policies import admission

    return admission(config, ref, context)


@hookimpl
def gateway_admissions() -> list[Callable[[GatewayConfig, SourceRef, BuildContext], Admission | None]]:
    return [_admission]
