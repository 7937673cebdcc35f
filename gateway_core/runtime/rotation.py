"""Secrets that changed where nothing can be rebuilt: a channel, and observers, keep those they started with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from ..contract.component import ComponentRef, Config
from ..contract.config_model import GatewayConfig

log = logging.getLogger("tidegate.reload")


def only_secrets_differ(old: Any, new: Any) -> bool:
    """Whether two parts of a config are the same except for values that come from secrets."""
    if type(old) is not type(new):
        return False
    if isinstance(old, ComponentRef):
        return old.name == new.name and only_secrets_differ(old.options, new.options)
    if isinstance(old, BaseModel):
        return all(
            (_is_secret(old, name) and _is_secret(new, name)) or only_secrets_differ(getattr(old, name), value)
            for name, value in new
        )
    if isinstance(old, list | tuple):
        return len(old) == len(new) and all(map(only_secrets_differ, old, new))
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(only_secrets_differ(old[key], new[key]) for key in old)
    return bool(old == new)


def _is_secret(model: BaseModel, field: str) -> bool:
    """Whether a field's own value comes from a secret. A field with models inside is looked at value by value."""
    if not isinstance(model, Config) or not model.hides(field):
        return False
    value = getattr(model, field)
    return not isinstance(value, BaseModel | ComponentRef) and not _has_models(value)


def _has_models(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return any(isinstance(one, BaseModel | ComponentRef) or _has_models(one) for one in inner)


def warn_of_kept(old: GatewayConfig, new: GatewayConfig) -> None:
    """Says which parts keep the secrets that they started with."""
    for place in _kept(old, new):
        log.warning("%s: keeps the secrets it started with until the gateway restarts", place)


def _kept(old: GatewayConfig, new: GatewayConfig) -> Iterator[str]:
    for name in old.brokers.keys() & new.brokers.keys():
        if old.brokers[name].channel != new.brokers[name].channel:
            yield f"brokers.{name}.channel"
    if old.observers != new.observers:
        yield "observers"
