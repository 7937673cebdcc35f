"""The options that a config sets, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel, RootModel

from gateway_core.config.model import GatewayConfig
from gateway_core.contract.component import ComponentRef
from gateway_core.contract.config_node import Place


class SetOption(NamedTuple):
    """An option that is written in a config: `name` is its key there, in a value of `model`. `kind` is that of the
    component whose options it belongs to, "" if it belongs to none."""

    place: Place
    model: BaseModel
    name: str
    value: Any
    kind: str


def set_options(config: GatewayConfig) -> Iterator[SetOption]:
    """All options that a config sets. Those left to their defaults are not among them."""
    for section in ("brokers", "triggers", "bridges"):
        yield from _inside(getattr(config, section), (section,), "")
    yield from _inside(config.observers, ("observers",), "")
    for section, entries in config.sections.items():
        yield from _inside(entries, (section,), "")


def _inside(value: Any, place: Place, kind: str) -> Iterator[SetOption]:
    if isinstance(value, ComponentRef):
        yield from _inside(value.options, (*place, value.name), value.kind)
    elif isinstance(value, RootModel):
        yield from _inside(value.root, place, kind)
    elif isinstance(value, BaseModel):
        fields = type(value).model_fields
        for name in value.model_fields_set:
            key, inner = fields[name].alias or name, getattr(value, name)
            yield SetOption((*place, key), value, key, inner, kind)
            if isinstance(inner, _CONTAINERS):
                yield from _inside(inner, (*place, key), kind)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, _CONTAINERS):
                yield from _inside(inner, (*place, str(key)), kind)
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            if isinstance(inner, _CONTAINERS):
                yield from _inside(inner, (*place, i), kind)


_CONTAINERS = (ComponentRef, BaseModel, dict, list, tuple)
