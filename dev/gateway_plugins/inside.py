"""What can only be seen where a plugin is installed: `python -m gateway_plugins.inside DISTRIBUTION PAGE...` prints a
JSON document. `tidegate plugin check` runs it in the environment that it made."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tempfile
import typing
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticUndefined

from gateway_core.contract.component import ComponentRef
from gateway_core.contract.configs import Registry, installed, load_all
from gateway_core.contract.errors import ConfigError, TidegateError
from gateway_core.contract.hookspecs import GROUP
from gateway_core.contract.offer import Offer
from gateway_core.contract.options import described

from .steps import Step, counted

PROMISING = ("source", "sink", "channel", "dead_letter")
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CONFIG = re.compile(r"^(brokers|triggers|bridges):", re.MULTILINE)
_FROM_ENV = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}|\benv: *([A-Za-z_][A-Za-z0-9_]*)")


def look(name: str, pages: list[Path]) -> dict[str, Any]:
    """The steps `load`, `options`, `schema`, `promises` and `pages`, and the components."""
    points = [point for point in distribution(name).entry_points if point.group == GROUP]
    load, registry = _load(points)
    if registry is None:
        return {"steps": [load.document()], "components": []}
    mine = [offer for offer in registry.offers() if offer.plugin in {point.name for point in points}]
    load.about = ", ".join(f"{offer.kind} {offer.component.name}" for offer in mine) or "no components"
    load.warnings += [f"{offer.kind} {offer.component.name} {offer.missing}" for offer in mine if offer.missing]
    steps = [load, _options(registry, mine), _schema(registry, mine), _promises(mine), _pages(registry, mine, pages)]
    return {"steps": [step.document() for step in steps], "components": [_component(offer) for offer in mine]}


def _component(offer: Offer) -> dict[str, Any]:
    card = offer.component.guarantees
    about = {"kind": offer.kind, "name": offer.component.name, "summary": offer.component.summary}
    return {**about, "guarantees": asdict(card) if card else None}


def _load(points: list[EntryPoint]) -> tuple[Step, Registry | None]:
    step = Step("load")
    before = set(sys.modules)
    for point in points:
        try:
            module = importlib.import_module(point.module)
        except Exception as e:
            step.failures.append(f"{point.value} can't be imported: {type(e).__name__}: {e}")
            return step, None
        if not Path(str(module.__file__)).resolve().is_relative_to(Path(sys.prefix).resolve()):
            step.failures.append(f"{point.value} comes from {module.__file__}, not from the wheel")
    early = {name.partition(".")[0] for name in set(sys.modules) - before}
    try:
        registry = installed()
    except TidegateError as e:
        step.failures.append(str(e))
        return step, None
    for offer in registry.offers():
        if offer.plugin in {point.name for point in points}:
            if heavy := sorted(early & set(offer.component.requires)):
                text = f"imports {', '.join(heavy)} when it is loaded: import it where the component is built"
                step.failures.append(f"{offer.kind} {offer.component.name} {text}")
            if not offer.component.summary.strip():
                step.failures.append(f"{offer.kind} {offer.component.name} has no summary")
    return step, registry


# -- options ----------------------------------------------------------------------------------------------------------


def _options(registry: Registry, mine: list[Offer]) -> Step:
    step = Step("options")
    count = 0
    for offer in mine:
        what = f"{offer.kind} {offer.component.name}"
        for model in _models(offer.component.model):
            if not (model.__doc__ or "").strip():
                step.failures.append(f"{what}: {model.__name__} has no docstring")
            if "root" in model.model_fields:
                continue
            for name, info in described(model).items():
                count += 1
                if not (info.description or "").strip():
                    step.failures.append(f"{what}: the option {name} has no description")
                if fault := _default_fault(registry, model, name):
                    step.failures.append(f"{what}: the default of {name} is invalid: {fault}")
    step.about = f"{counted(count, 'option')}, each with a description and a valid default"
    return step


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and those that its fields lead to, each once."""
    seen, todo = {model}, [model]
    while todo:
        yield (found := todo.pop(0))
        for info in found.model_fields.values():
            inner = [m for m in _named(info.annotation) if m not in seen]
            seen.update(inner)
            todo += inner


def _named(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _named(argument)


def _default_fault(registry: Registry, model: type[BaseModel], name: str) -> str:
    """What is wrong with the default of a field, "" if it has none or it is valid."""
    info = model.model_fields[name]
    if info.is_required() or info.default_factory is not None:
        return ""
    default = info.default
    if default is PydanticUndefined or default is None:
        return ""
    if isinstance(default, ComponentRef):
        return "" if registry.find(default.kind, default.name) else f"there is no {default.kind} {default.name!r}"
    wanted: Any = Annotated[info.annotation, info]
    try:
        TypeAdapter(wanted).validate_python(default)
    except ValidationError as e:
        return str(e.errors()[0]["msg"])
    return ""


def _schema(registry: Registry, mine: list[Offer]) -> Step:
    from gateway_inspect.schema import schema

    step = Step("schema", "`tidegate schema` has its options")
    try:
        made = json.dumps(schema(registry))
    except Exception as e:
        step.failures.append(f"`tidegate schema` fails: {type(e).__name__}: {e}")
        return step
    lost = [offer.component.name for offer in mine if json.dumps(offer.component.name) not in made]
    step.failures += [f"{name} is not in the schema" for name in lost]
    return step


def _promises(mine: list[Offer]) -> Step:
    carrying = [offer for offer in mine if offer.kind in PROMISING]
    step = Step("promises", counted(len(carrying), "capability card") if carrying else "nothing to promise")
    for offer in carrying:
        if offer.component.guarantees is None:
            step.failures.append(
                f"{offer.kind} {offer.component.name} does not say what it promises: give its component `guarantees`"
            )
    return step


# -- pages ------------------------------------------------------------------------------------------------------------


def _pages(registry: Registry, mine: list[Offer], pages: list[Path]) -> Step:
    step = Step("pages")
    if not pages:
        step.failures.append("there is no page: write README.md or docs/*.md")
        return step
    blocks = [(page, text) for page in pages for text in _BLOCK.findall(page.read_text(encoding="utf-8"))]
    configs = [(page, text) for page, text in blocks if _CONFIG.search(text)]
    for page, text in configs:
        step.failures += [f"{page.name}: {fault}" for fault in _faults(registry, text)]
    for offer in mine:
        name = re.escape(offer.component.name)
        if not any(re.search(rf"(?<![\w-]){name}(?![\w-])", text) for _, text in configs):
            step.failures.append(f"no page shows a config with the {offer.kind} {offer.component.name}")
    step.about = f"{counted(len(configs), 'config')} on {counted(len(pages), 'page')}"
    return step


def _faults(registry: Registry, text: str) -> list[str]:
    """The faults of a config. Environment variables that it names have a value."""
    env: Mapping[str, str] = {name: "1" for found in _FROM_ENV.findall(text) for name in found if name}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tidegate.yaml")
        file.write_text(text, encoding="utf-8")
        try:
            load_all([file], registry, env)
        except ConfigError as e:
            return [f"{fault.path}: {fault.message}" for fault in e.faults]
    return []


if __name__ == "__main__":
    print(json.dumps(look(sys.argv[1], [Path(page) for page in sys.argv[2:]])))
