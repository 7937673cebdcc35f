"""The sections of a config: the gateway's own, and those that plugins offer (`gateway_config_sections`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args, get_origin

from ..contract.components import Components
from ..contract.config_extension import ConfigSection
from ..contract.config_model import GatewayConfig


@dataclass(frozen=True, slots=True)
class Section:
    """A section: its name, what is known of it, and whether it is a mapping of names to entries (else a list).
    `plugin` offers it; "" if it is the gateway's own."""

    name: str
    offered: ConfigSection
    named: bool = True
    plugin: str = ""


def sections(registry: Components) -> dict[str, Section]:
    """All sections, in the order in which messages list them."""
    own = {
        name: Section(name, ConfigSection(name, "", get_args(info.annotation)[-1]), get_origin(info.annotation) is dict)
        for name, info in GatewayConfig.model_fields.items()
    }
    offered = {name: Section(name, of, plugin=plugin) for name, (of, plugin) in registry.sections.items()}
    include = own.pop("include")
    return {**own, **offered, include.name: include}
