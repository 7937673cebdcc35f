"""The JSON Schema of the whole config, for editors: made from the models and from what the plugins offer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, Field, RootModel, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from gateway_core.contract.component import ComponentRef, Config, Kind
from gateway_core.contract.config_extension import ConfigSection
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.configs import Registry
from gateway_core.contract.offer import Offer
from gateway_core.contract.options import described

_KINDS: tuple[Kind, ...] = get_args(Kind)
_PLACE = {"type": "string", "pattern": r"\$\{[^{}]*\}", "description": "Filled in when the config is loaded."}
_NOTES = ("title", "description", "default", "examples", "deprecated")
_LAST = "include"
_NARROW = ("pattern", "format", "minLength", "maxLength", "enum", "const")


def schema(registry: Registry) -> dict[str, Any]:
    """A self-contained JSON Schema (2020-12) of a config file, with all components and sections of the registry.

    It admits `${…}` wherever a value may stand, so what it accepts may still be a fault when it is loaded.
    """
    offers = {kind: _offers(registry, kind) for kind in _KINDS}
    models = {o.component.model for found in offers.values() for o in found}
    whole = whole_model(section for section, _ in registry.sections.values())
    ordered: list[type[BaseModel]] = [whole, *sorted(models, key=lambda m: (m.__module__, m.__qualname__))]
    refs, made = models_json_schema([(m, "validation") for m in ordered], schema_generator=_Generator)
    definitions: dict[str, Any] = made.get("$defs", {})
    for kind, found in offers.items():
        options = {o.component.name: refs[o.component.model, "validation"] for o in found}
        definitions[f"tidegate.{kind}"] = _component(kind, found, options)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tidegate config",
        "$ref": refs[whole, "validation"]["$ref"],
        "$defs": {name: _admit_places(d) for name, d in sorted(definitions.items())},
    }


def whole_model(sections: Iterable[ConfigSection]) -> type[Config]:
    """The model of a config file with these sections of plugins: for the editor schema and the reference page."""
    fields: dict[str, Any] = {n: (i.annotation, i) for n, i in described(GatewayConfig).items() if n != _LAST}
    for section in sections:  # the alias lets a section have the name of an attribute of pydantic's models
        about: Any = Field({}, alias=section.name, description=section.summary)
        fields[f"section_{section.name}"] = (dict[str, section.model], about)  # type: ignore[name-defined]
    last = GatewayConfig.model_fields[_LAST]
    fields[_LAST] = (last.annotation, last)
    made: type[Config] = create_model(GatewayConfig.__name__, __base__=Config, **fields)
    made.__doc__ = GatewayConfig.__doc__
    return made


def _offers(registry: Registry, kind: Kind) -> list[Offer]:
    by_name: dict[str, Offer] = {}
    for offer in registry.offers(kind):
        if offer.kind == kind or offer.component.name not in by_name:
            by_name[offer.component.name] = offer
    return [by_name[name] for name in sorted(by_name)]


def _component(kind: Kind, offers: list[Offer], options: dict[str, Any]) -> dict[str, Any]:
    forms: list[dict[str, Any]] = []
    bare = [o.component.name for o in offers if _needs_nothing(o)]
    if bare:
        forms.append({"enum": bare, "description": "A component without options."})
    for offer in offers:
        name = offer.component.name
        inner = {"anyOf": [options[name], {"type": "null"}]} if name in bare else options[name]
        forms.append(
            {
                "type": "object",
                "description": offer.component.summary,
                "properties": {name: inner},
                "required": [name],
                "additionalProperties": False,
            }
        )
    if schemes := sorted({s for o in offers for s in o.component.schemes}):
        forms.append({"type": "string", "pattern": f"^({'|'.join(schemes)})://", "description": "A URL."})
    return {"description": f"One {kind.replace('_', ' ')}: a name, or a name with options.", "anyOf": [*forms, _PLACE]}


def _needs_nothing(offer: Offer) -> bool:
    try:
        offer.component.model.model_validate({})
    except ValidationError:
        return False
    return True


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, with references written as a config writes them, and without titles made from names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def tagged_union_schema(self, schema: Any) -> Any:
        made = super().tagged_union_schema(schema)
        if "oneOf" in made:  # `${…}` is admitted by several arms
            made["anyOf"] = made.pop("oneOf")
        return made

    def encode_default(self, dft: Any) -> Any:
        return super().encode_default(_as_written(dft))


def _as_written(value: Any) -> Any:
    if isinstance(value, ComponentRef):
        if not value.name:
            return value.raw
        return value.name if value.raw is None else {value.name: value.raw}
    if isinstance(value, RootModel):
        return _as_written(value.root)
    if isinstance(value, BaseModel):
        return {name: _as_written(getattr(value, name)) for name in sorted(value.model_fields_set)}
    if isinstance(value, dict):
        return {k: _as_written(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_as_written(v) for v in value]
    return value


def _admit_places(node: Any) -> Any:
    """The schema with `${…}` admitted wherever something narrower than text is wanted."""
    if not isinstance(node, dict):
        return node
    made = dict(node)
    if "x-tidegate" in made:
        made["$ref"] = f"#/$defs/tidegate.{made.pop('x-tidegate')}"
    for key in ("properties", "patternProperties"):
        if key in made:
            made[key] = {k: _admit_places(v) for k, v in made[key].items()}
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = _admit_places(made[key])
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if key in made:
            made[key] = [v if v is _PLACE else _admit_places(v) for v in made[key]]
    if "patternProperties" in made:
        made.setdefault("additionalProperties", False)
    narrow = made.get("type") in ("integer", "number", "boolean") or any(k in made for k in _NARROW)
    if not narrow:
        return made
    notes = {k: made.pop(k) for k in _NOTES if k in made}
    return {"anyOf": [made, _PLACE], **notes}
