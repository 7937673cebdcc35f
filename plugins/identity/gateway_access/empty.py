"""Options that say who may come in, or how much, and are there but empty.

In YAML a key without a value is null, and so is one whose environment variable is empty. Whoever writes `quota:` wants
one. If that meant the same as no `quota`, a gateway would run open that looks closed.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_walk import SetOption, set_options

from .config import AccessConfig
from .quota_config import LimitConfig

_WORDS = frozenset({"audience", "authenticator", "ca_file", "client_ca_file", "from", "token"})
_LISTS = ("authenticate", "allow")


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """A fault for each of them. Options that have a value by default may be null: that turns them off."""
    for option in set_options(config):
        if option.value is None and _protects(option):
            text = f"`{option.name}` is there, but empty"
            yield ConfigFinding(text, option.place, "write what it shall be, or remove it")
        elif option.value == [] and option.name in _LISTS and isinstance(option.model, AccessConfig):
            text = f"`{option.name}` is there, but empty: it would let in everyone"
            yield ConfigFinding(text, option.place, "write entries, or remove it")


def _protects(option: SetOption) -> bool:
    """Whether an option that is null is one of those, and was not turned off."""
    by_default, is_section = _facts(type(option.model), option.name)
    if by_default is not None:
        return False
    if option.kind == "authenticator" or isinstance(option.model, LimitConfig) or option.name in _WORDS:
        return True
    return bool(option.kind) and is_section


@cache
def _facts(model: type[BaseModel], name: str) -> tuple[Any, bool]:
    """The default of an option, and whether its value is a mapping of options."""
    field = next(field for key, field in model.model_fields.items() if name in (key, field.alias))
    return field.default, any(isinstance(arm, type) and issubclass(arm, BaseModel) for arm in _arms(field.annotation))


def _arms(annotation: Any) -> Iterator[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for arm in typing.get_args(annotation):
            yield from _arms(arm)
    else:
        yield annotation
