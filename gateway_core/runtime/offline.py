"""A config's gateway for commands that only look at it (`tidegate explain`, `graph`): built, and never started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config.registry import Registry
from ..contract.clock import Clock, SystemClock
from ..contract.component import BuildContext, ComponentRef
from ..contract.config_model import GatewayConfig
from ..contract.settings import Settings
from ..contract.topology import Topology
from .build import Builder, Built

Build = Callable[[ComponentRef, BuildContext], Any]
Instead = Callable[[ComponentRef, BuildContext, Build], Any]


class OfflineRegistry(Registry):
    """The same components as another registry. A component that it builds is only inspected (`BuildContext.offline`);
    nobody is asked who may send. `instead` builds what takes a component's place, given how to build that."""

    def __init__(
        self, real: Registry, instead: Callable[[ComponentRef, BuildContext, Build], Any] | None = None
    ) -> None:
        vars(self).update(vars(real))
        self.admissions = []
        self._instead = instead

    def build(self, ref: ComponentRef, context: BuildContext) -> Any:
        return self._real(ref, context) if self._instead is None else self._instead(ref, context, self._real)

    def _real(self, ref: ComponentRef, context: BuildContext) -> Any:
        return super().build(ref, replace(context, offline=True))


def built_offline(config: GatewayConfig, registry: Registry) -> Topology:
    """The parts of a config's gateway, for readers. Nothing outside the process is reached: no network, no files, no
    observers. Raises `StartError` if a component can't be built."""
    return build_with(config, OfflineRegistry(registry), SystemClock())


def build_with(config: GatewayConfig, registry: OfflineRegistry, clock: Clock) -> Built:
    """The same with this registry, which may have stand-ins for components, and with this clock."""
    quiet = config.model_copy(update={"observers": []})
    settings = Settings(data_dir=Path("tidegate-data"), workers=1)
    return Builder(quiet, settings, registry, clock).build()
