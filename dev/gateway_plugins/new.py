"""Writes the package of a new plugin from templates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from gateway_core import __version__
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.hookspecs import GROUP

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_FIELD = re.compile(r"<<(\w+)>>")
_ABOUT = {
    "source": "Events from lines of JSON over TCP",
    "sink": "Events as lines of JSON over TCP",
    "channel": "A channel in an SQLite file",
    "codec": "CloudEvents whose data has a maximum size",
    "filter": "A filter on the text of an attribute",
    "key-mapper": "Record keys from the beginning of an attribute",
    "authenticator": "Senders that know a shared token",
}
_PLACES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "test.yaml": ".github/workflows/test.yaml",
    "init.py": "src/{module}/__init__.py",
    "page.md": "docs/{name}.md",
    "test.py": "tests/test_{module}.py",
}
"""Where the files of templates go; any other is a module of the package."""


class Kind(StrEnum):
    source = "source"
    sink = "sink"
    channel = "channel"
    codec = "codec"
    filter = "filter"
    key_mapper = "key-mapper"
    authenticator = "authenticator"


@dataclass(frozen=True)
class Names:
    """The names of a plugin: `name` is the word in a config, the others are made from it."""

    name: str

    @property
    def distribution(self) -> str:
        return f"tidegate-{self.name}"

    @property
    def module(self) -> str:
        return f"tidegate_{self.name.replace('-', '_')}"

    @property
    def cls(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("-"))


def package(kind: Kind, name: str) -> dict[str, str]:
    """The files of a new package: path -> text. Raises `CommandError` if the name can't be used."""
    if not _NAME.fullmatch(name):
        raise CommandError(f"{name!r} is not a name: use lower-case letters, digits and single hyphens, as in my-queue")
    for point in entry_points(group=GROUP, name=name):
        where = point.dist.metadata["Name"] if point.dist else "this environment"
        raise CommandError(f"there is a plugin {name!r} already, of {where}: choose another name")
    names = Names(name)
    values = {
        "name": name,
        "distribution": names.distribution,
        "module": names.module,
        "Class": names.cls,
        "attribute": name.replace("-", ""),
        "about": _ABOUT[kind],
        "version": __version__,
    }
    templates = files(__package__) / "templates"
    found = {f"src/{names.module}/py.typed": ""}
    for template in [*(templates / "common").iterdir(), *(templates / kind).iterdir()]:
        file = template.name.removesuffix(".tmpl")
        place = _PLACES.get(file, f"src/{{module}}/{file}")
        found[place.format(name=name, module=names.module)] = _filled(template, values)
    return dict(sorted(found.items()))


def _filled(template: Traversable, values: dict[str, str]) -> str:
    return _FIELD.sub(lambda match: values[match[1]], template.read_text(encoding="utf-8"))


def write(kind: Kind, name: str, folder: Path | None) -> Path:
    """Writes the package, by default into a folder named after the distribution. Raises `CommandError` if there are
    files already."""
    texts = package(kind, name)
    root = folder or Path(Names(name).distribution)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise CommandError(f"{root} exists and is not an empty folder: name another one with --dir")
    for path, text in texts.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root
