"""The config of an entry as plain values: what its author wrote, with secrets as `****`."""

from __future__ import annotations

from io import StringIO
from typing import Any

from gateway_options.secrecy import names_credential, shown_url
from pydantic import BaseModel, RootModel, SecretBytes, SecretStr

from gateway_core.contract.component import ComponentRef, Config
from gateway_core.contract.options import HIDDEN

_WITH_CREDENTIALS = ("headers", "conf")
"""Options that are mappings, where the name of an entry tells a credential."""


def shown(value: Any, hidden: bool = False) -> Any:
    """A config's value. `hidden` if it holds a secret, unless a model inside knows which part does."""
    if isinstance(value, ComponentRef):
        return _reference(value, hidden)
    if isinstance(value, RootModel):
        return shown(value.root, hidden)
    if isinstance(value, BaseModel):
        return _model(value, hidden)
    if isinstance(value, dict):
        return {str(k): shown(v, hidden) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [shown(v, hidden) for v in value]
    if value is None or isinstance(value, bool):
        return value
    if hidden or isinstance(value, SecretStr | SecretBytes | bytes):
        return HIDDEN
    return value if isinstance(value, int | float) else shown_url(str(value), written=True)


def _reference(ref: ComponentRef, hidden: bool) -> Any:
    options = shown(ref.raw if ref.options is None else ref.options, hidden)
    return ref.name if options in ({}, None) else {ref.name: options}


def _model(model: BaseModel, hidden: bool) -> dict[str, Any]:
    fields = type(model).model_fields
    return {
        fields[name].alias or name: shown(
            _part(model, name), model.hides(name) if isinstance(model, Config) else hidden
        )
        for name in fields
        if name in model.model_fields_set
    }


def _part(model: BaseModel, name: str) -> Any:
    text = model.shown(name) if isinstance(model, Config) else None
    value = getattr(model, name) if text is None else text
    if name in _WITH_CREDENTIALS and isinstance(value, dict):
        return {key: HIDDEN if names_credential(str(key)) else inner for key, inner in value.items()}
    return value


def as_yaml(document: Any) -> str:
    """Plain values as YAML, for people to read."""
    from ruamel.yaml import YAML

    out = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(document, out)
    return out.getvalue()
