"""docs/reference/hooks.md has everything that a plugin's author meets."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

import pytest

from gateway_core.contract import capabilities as abilities
from gateway_core.contract import config_extension, config_node, errors, event, hookspecs, interfaces, outcome
from gateway_core.contract.component import Binding, BuildContext, Command, Component, Transport

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "hooks.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
DESCRIPTORS = (Component, Transport, Command, BuildContext, Binding)


def classes(module: ModuleType) -> list[type]:
    return [c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__]


EXTENSIONS = classes(config_extension)
PUBLIC = [
    *DESCRIPTORS,
    *EXTENSIONS,
    *(
        c
        for module in (event, outcome, errors, interfaces, abilities, config_node)
        for c in classes(module)
        if c.__name__[0] != "_"
    ),
]


def test_there_is_what_plugins_import() -> None:
    names = {c.__name__ for c in PUBLIC}
    assert names >= {
        "Event",
        "Message",
        "Binding",
        "BuildContext",
        "Outcome",
        "Refused",
        "Overloaded",
        "Sink",
        "Filter",
    }


@pytest.mark.pure  # the page has the docstrings of the sources
@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_a_class_is_there_with_its_attributes_and_methods(cls: type) -> None:
    section = SECTIONS[cls.__name__]
    assert (inspect.getdoc(cls) or "").split("\n")[0].split(".")[0] in section
    for name in inspect.get_annotations(cls):
        if not name.startswith("_"):
            assert f"{name}: " in section, f"{cls.__name__}.{name} is missing"
    for name, member in vars(cls).items():
        if inspect.isfunction(member) and not name.startswith("_") and cls not in (*DESCRIPTORS, *EXTENSIONS):
            assert f"def {name}(" in section, f"{cls.__name__}.{name} is missing"
    if "__slots__" in vars(cls) and cls not in (*DESCRIPTORS, *EXTENSIONS):
        for name in cls.__slots__:  # type: ignore[attr-defined]
            assert name in section, f"{cls.__name__}.{name} is missing"


@pytest.mark.parametrize("name", ["Accepted", "Send", "KeyMapper", "DeliveryState", "PARTITION_BITS"])
def test_names_of_types_and_numbers_are_there(name: str) -> None:
    assert f"\n{name} = " in SECTIONS[name]


@pytest.mark.parametrize("hook", [n for n in vars(hookspecs) if n.startswith("gateway_")])
def test_every_hook_is_there(hook: str) -> None:
    assert hook in SECTIONS
