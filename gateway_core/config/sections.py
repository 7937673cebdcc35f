"""The sections of a config: the gateway's own, and those that plugins offer (`gateway_config_sections`)."""

from __future__ import annotations

from .model import GatewayConfig
from .registry import Registry

_LAST = "include"


def section_names(registry: Registry) -> list[str]:
    """The keys that may stand at the top of a config file, in the order in which messages list them."""
    own = [name for name in GatewayConfig.model_fields if name != _LAST]
    return [*own, *registry.sections, _LAST]


def form_of(section: str, registry: Registry) -> type | None:
    """The form of a section: dict if its entries have names, else list; None if the section is unknown."""
    if section in registry.sections:
        return dict
    info = GatewayConfig.model_fields.get(section)
    return None if info is None else (dict if str(info.annotation).startswith("dict") else list)
