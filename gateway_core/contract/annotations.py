"""Walks the annotations of config models: which types may stand at a place, and which references to components."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel

from .component import ComponentRef
from .config_node import Place


def arms(annotation: Any) -> list[Any]:
    """The types that an annotation allows: `Annotated` and unions taken apart, a `RootModel` opened."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return arms(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [arm for a in typing.get_args(annotation) for arm in arms(a)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation.__pydantic_root_model__:
        return arms(annotation.model_fields["root"].annotation)
    return [annotation]


def inside(annotation: Any, step: str | int) -> list[Any]:
    """The annotations of what is one step inside."""
    found: list[Any] = []
    for arm in arms(annotation):
        origin, args = typing.get_origin(arm), typing.get_args(arm)
        if isinstance(arm, type) and issubclass(arm, BaseModel):
            found += [i.annotation for n, i in arm.model_fields.items() if step in (n, i.alias)]
        elif origin in (dict, Mapping) and len(args) == 2:
            found.append(args[1])
        elif args and isinstance(step, int):
            found.append(args[0])
    return found


def models_at(annotation: Any, path: Place) -> list[type[BaseModel]]:
    """The models that may stand at a path inside a value of this annotation."""
    level = [annotation]
    for step in path:
        level = [a for one in level for a in inside(one, step)]
    return [a for one in level for a in arms(one) if isinstance(a, type) and issubclass(a, BaseModel)]


def written_refs(annotation: Any, data: Any, path: Place) -> Iterator[tuple[ComponentRef, Place]]:
    """The references in data that did not validate as a whole."""
    for arm in arms(annotation):
        if isinstance(arm, type) and issubclass(arm, ComponentRef):
            try:
                yield arm.parse(data), path
            except ValueError:
                continue
    if isinstance(data, dict):
        for key, inner in data.items():
            for kind in inside(annotation, key):
                yield from written_refs(kind, inner, (*path, key))
    elif isinstance(data, list):
        for i, inner in enumerate(data):
            for kind in inside(annotation, i):
                yield from written_refs(kind, inner, (*path, i))
