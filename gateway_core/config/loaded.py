"""A config as it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..contract.errors import Fault
from .model import GatewayConfig


@dataclass(frozen=True)
class Loaded:
    """A config with its warnings, and where it was read from."""

    config: GatewayConfig
    warnings: list[Fault]
    files: list[str]
    places: Mapping[str, Mapping[str, tuple[str, int]]] = field(default_factory=dict)
    """File and line of each entry: by section, then by name."""
    secret_files: Sequence[str] = ()

    def place(self, section: str, name: str) -> tuple[str, int] | None:
        """File and line of an entry; None if there is none of this name."""
        return self.places.get(section, {}).get(name)
