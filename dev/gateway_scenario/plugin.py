"""The plugin's hooks: the command `tidegate test`, and the section `tests` of a config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl

from . import SUFFIX

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.config_extension import ConfigSection

_TESTS = "Scenarios by name, for `tidegate test`. A running gateway ignores them."


def _test() -> Any:
    from .cli import play_scenarios

    return play_scenarios


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("test", "Run the scenario tests of a config, offline and within seconds.", _test, panel="Run")]


def _entry() -> type[BaseModel]:
    from .model import ScenarioConfig

    return ScenarioConfig


@hookimpl
def gateway_config_sections() -> list[ConfigSection]:
    from gateway_core.contract.config_extension import ConfigSection

    return [ConfigSection("tests", _TESTS, _entry, SUFFIX)]
