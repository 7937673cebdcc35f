"""The sections of a config: the gateway's own, and those that plugins offer (`gateway_config_sections`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field, create_model

from ..contract.component import Config
from ..contract.config_extension import ConfigSection
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


def whole_model(sections: Iterable[ConfigSection]) -> type[Config]:
    """The model of a config file with these sections of plugins: for the editor schema and the reference page."""
    fields: dict[str, Any] = {n: (i.annotation, i) for n, i in GatewayConfig.model_fields.items() if n != _LAST}
    for section in sections:  # the alias lets a section have the name of an attribute of pydantic's models
        about: Any = Field({}, alias=section.name, description=section.summary)
        fields[f"section_{section.name}"] = (dict[str, section.entry], about)  # type: ignore[name-defined]
    last = GatewayConfig.model_fields[_LAST]
    fields[_LAST] = (last.annotation, last)
    made: type[Config] = create_model(GatewayConfig.__name__, __base__=Config, **fields)
    made.__doc__ = GatewayConfig.__doc__
    return made
