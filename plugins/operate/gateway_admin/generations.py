"""The desired and the running version of each broker, trigger, bridge and policy (Kubernetes: `metadata.generation`,
`status.observedGeneration`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gateway_core.contract.config_model import GatewayConfig

from .policies import POLICIES

RUNNING = ("brokers", "triggers", "bridges")
"""Sections whose entries have a status of their own."""
SECTIONS = (*RUNNING, POLICIES)
Key = tuple[str, str]
"""Section and name."""


@dataclass(slots=True)
class Version:
    """The desired state of an entry. `generation` counts its changes since the start, from 1; `observed` is the running
    one, 0 for none."""

    config: Any
    generation: int = 1
    observed: int = 0


class Generations:
    """The versions of all entries."""

    def __init__(self, config: GatewayConfig) -> None:
        self._versions: dict[Key, Version] = {}
        self._names: dict[str, list[str]] = {}
        self.want(config)

    def want(self, config: GatewayConfig) -> None:
        """Sets the desired config."""
        wanted = dict(_entries(config))
        for key, entry in wanted.items():
            version = self._versions.get(key)
            if version is None:
                self._versions[key] = Version(entry)
            elif version.config is not entry:
                version.generation += version.config != entry
                version.config = entry
        for key in [k for k, v in self._versions.items() if k not in wanted and not v.observed]:
            del self._versions[key]
        self._sort()

    def reach(self, wanted: GatewayConfig, reached: GatewayConfig) -> None:
        """Sets the running config: `reached` is `wanted` without what could not be started."""
        running, asked = dict(_entries(reached)), dict(_entries(wanted))
        for key in [k for k in self._versions if k not in asked]:
            del self._versions[key]
        self._sort()
        for key, version in self._versions.items():
            if key in running and running[key] == version.config:
                version.observed = version.generation

    def _sort(self) -> None:
        self._names = {section: [name for of, name in self._versions if of == section] for section in SECTIONS}

    def get(self, section: str, name: str) -> Version | None:
        """One entry, or None."""
        return self._versions.get((section, name))

    def names(self, section: str) -> list[str]:
        """All names of a section."""
        return self._names.get(section, [])


def _entries(config: GatewayConfig) -> Iterator[tuple[Key, Any]]:
    for section in SECTIONS:
        entries = config.section(POLICIES) if section == POLICIES else getattr(config, section)
        for name, entry in entries.items():
            yield (section, name), entry


def singular(section: str) -> str:
    """The word for one entry of a section."""
    return "policy" if section == POLICIES else section[:-1]
