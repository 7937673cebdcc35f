"""Config models as tables: each key with its type, default and meaning, in plain words."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gateway_core.contract.component import ComponentRef
from gateway_core.contract.options import described

_PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    type(None): "nothing",
    SecretStr: "text",
}
_BOUNDS = {
    "ge": "≥ {}",
    "gt": "> {}",
    "le": "≤ {}",
    "lt": "< {}",
    "min_length": "at least {} long",
    "pattern": "matches `{}`",
}


def table(model: type[BaseModel], link: str = "") -> list[str]:
    """The table of a model's keys. `link` is the page where kinds of components are listed."""
    rows = [_row(field.alias or name, field, link) for name, field in described(model).items()]
    return ["| key | type | default | meaning |", "| --- | --- | --- | --- |", *rows] if rows else []


def _row(name: str, field: FieldInfo, link: str) -> str:
    return f"| `{name}` | {_cell(_type(field, link))} | {_default(field)} | {_cell(field.description or '')} |"


def nested(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The models that a model's keys lead to, each once, outermost first."""
    seen: set[type[BaseModel]] = set()
    todo = [model]
    while todo:
        for field in todo.pop(0).model_fields.values():
            for found in _models(field.annotation):
                if found not in seen and found is not model:
                    seen.add(found)
                    todo.append(found)
                    yield found


def text_of(model: type[BaseModel]) -> str:
    """What a model says of itself, on one line."""
    return " ".join((model.__doc__ or "").split())


def root_type(model: type[BaseModel], link: str = "") -> str:
    """What a component whose option is a single value takes."""
    return _type(model.model_fields["root"], link)


def words(annotation: Any, link: str = "") -> str:
    """A type in plain words."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _bounded(words(arguments[0], link), arguments[1:])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(words(a, link) for a in arguments if a is not type(None))
    if origin in (list, tuple):
        return f"list of {words(arguments[0], link)}"
    if origin is dict:
        keys, values = arguments
        names = "names" if typing.get_origin(keys) is Annotated else words(keys, link)
        return f"mapping of {names} to {words(values, link)}"
    return _PLAIN.get(annotation) or _class_words(annotation, link)


def _class_words(annotation: Any, link: str) -> str:
    if not isinstance(annotation, type):
        return str(annotation)
    if issubclass(annotation, ComponentRef):
        return f"[{annotation.kind.replace('_', ' ')}]({link}#{anchor(annotation.kind)})"
    if issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{anchor(annotation.__name__)})"
    if issubclass(annotation, Enum):
        return " or ".join(f"`{member.value}`" for member in annotation)
    return annotation.__name__


def anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _type(field: FieldInfo, link: str) -> str:
    return _bounded(words(field.annotation, link), field.metadata)


def _bounded(text: str, metadata: Any) -> str:
    said = []
    for one in metadata:
        one = [one, *getattr(one, "metadata", ())]
        for part in one:
            for name, form in _BOUNDS.items():
                value = getattr(part, name, None)
                if value is not None:
                    said.append(form.format(f"{value:g}" if isinstance(value, float) else value))
    return f"{text}, {', '.join(dict.fromkeys(said))}".replace("at least 1", "not empty") if said else text


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value in ([], {}):
        return ""
    if isinstance(value, ComponentRef):
        return f"`{value.name}`"
    if isinstance(value, BaseModel):
        changed = {k: v for k, v in value.model_dump().items() if v != type(value).model_fields[k].default}
        return ", ".join(f"`{k}: {v}`" for k, v in changed.items())
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models(argument)
