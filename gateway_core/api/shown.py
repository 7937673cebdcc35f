"""What the config says of an entry, as plain values: what its author wrote, with secrets as `****`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, RootModel, SecretBytes, SecretStr

from ..component import ComponentRef, Config
from ..config.interpolate import HIDDEN


def shown(value: Any, hidden: bool = False) -> Any:
    """A config's value. `hidden` where it holds a secret, unless a model inside knows better which part does."""
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
    return value if isinstance(value, int | float) else _without_password(str(value))


def _reference(ref: ComponentRef, hidden: bool) -> Any:
    options = shown(ref.raw if ref.options is None else ref.options, hidden)
    return ref.name if options in ({}, None) else {ref.name: options}


def _model(model: BaseModel, hidden: bool) -> dict[str, Any]:
    fields = type(model).model_fields
    return {
        fields[name].alias or name: shown(
            getattr(model, name), model.hides(name) if isinstance(model, Config) else hidden
        )
        for name in fields
        if name in model.model_fields_set
    }


def _without_password(text: str) -> str:
    """A URL may hold a password in front of its host."""
    if "://" not in text or "@" not in text:
        return text
    try:
        parts = urlsplit(text)
        if parts.password is None:
            return text
    except ValueError:
        return HIDDEN
    return text.replace(f":{parts.password}@", f":{HIDDEN}@", 1)
