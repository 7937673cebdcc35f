"""Knative manifests as config: `kind: Broker` and `kind: Trigger` become entries of `brokers` and `triggers`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from ..errors import Fault
from .destinations import Objects
from .explain import NAME_RULE, show
from .faults import dotted, near
from .interpolate import Path as Keys
from .manifest_part import Notes, Part, copy_of
from .manifest_spec import LISTEN, Meaning, Subject, broker, ingress_path, section_name, trigger
from .model import GatewayConfig, Manifest, Name
from .restrictions import GROUP, check_policies, restricts
from .yaml import Node

VERSION = f"{GROUP}/v1"
_SECTIONS = {"Broker": "brokers", "Trigger": "triggers"}
_READ = {"Broker": broker, "Trigger": trigger}
_LISTS = {("v1", "List"), (VERSION, "BrokerList"), (VERSION, "TriggerList")}
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_REF = re.compile(r"[^/\s]+(/[^/\s]+){1,4}")


def is_manifest(document: Node) -> bool:
    """Whether a document is a Kubernetes manifest and not one of our own sections."""
    keys = document.value.keys()
    return ("kind" in keys or "apiVersion" in keys) and not keys & GatewayConfig.model_fields.keys()


@dataclass
class _Entry:
    section: str
    name: str
    place: Part
    meaning: Meaning


class Manifests:
    """The manifests of a config. They are gathered first and merged into the sections when all files are read, so that
    their order, and that of the files, does not matter."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.notes = Notes(env)
        self.origins: dict[tuple[str, str], Manifest] = {}
        self.bad: set[Keys] = set()
        self._found: list[tuple[str, Part]] = []

    def add(self, document: Node) -> None:
        """Takes a document."""
        self._found += self._opened(Part(document, "", self.notes))

    def _opened(self, part: Part) -> Iterator[tuple[str, Part]]:
        """The brokers and triggers in a document, with their kind: itself, or the items of a list."""
        for key in ("apiVersion", "kind"):
            if not part.has(key):
                part.fault(
                    key, f"the key `{key}` is missing", f"add `apiVersion: {VERSION}` and `kind: Broker` or `Trigger`"
                )
        version, kind = part.text("apiVersion"), part.text("kind")
        if version is None or kind is None:
            return
        if restricts(part, version, kind):
            return
        if (version, kind) in _LISTS:
            yield from self._items(part)
        elif version == VERSION and kind in _SECTIONS:
            yield kind, part
        elif version.startswith(f"{GROUP}/") and kind in _SECTIONS:
            part.warn("apiVersion", f"`{kind}` of `{version}` is ignored", f"write `apiVersion: {VERSION}`")
        else:
            remedy = near(kind, _SECTIONS) if version.startswith(f"{GROUP}/") else ""
            part.warn("kind", f"`{kind}` of `{version}` is ignored", remedy or "Tidegate reads `Broker` and `Trigger`")

    def _items(self, part: Part) -> Iterator[tuple[str, Part]]:
        items = part.node.value["items"].value if part.has("items") else []
        if not isinstance(items, list):
            part.fault("items", f"expected a list, found {show(items)}")
            return
        for i, item in enumerate(items):
            path = dotted((part.at("items"), i))
            if isinstance(item.value, dict):
                yield from self._opened(Part(item, path, self.notes))
            else:
                self._fault(f"expected a mapping, found {show(item.value)}", path, item.file, item.line, "")

    def merge(self, root: Node) -> None:
        """Puts what the manifests mean into the sections."""
        objects = Objects(self._refs(root), self._brokers(root))
        for kind, part in self._found:
            entry = self._entry(kind, part, objects)
            if entry is not None:
                self._put(root, entry)

    def _refs(self, root: Node) -> Node | None:
        """The section `refs`. Its values remember their path there, as triggers will hold copies of them."""
        section: Node | None = root.value.get("refs")
        if section is None:
            return None
        for key, node in section.value.items():
            path = dotted(("refs", key))
            section.value[key] = copy_of(node, written=path)
            if not _REF.fullmatch(key):
                remedy = "write `Kind/name`, `Kind/namespace/name`, or either with `apiVersion/` in front"
                self._fault(f"`{key}` names no object", path, node.file, section.lines[key], remedy)
        return section

    def _brokers(self, root: Node) -> dict[str, str]:
        """The addresses of the brokers, but for those that our own vocabulary gives another ingress."""
        found: dict[str, str] = {}
        own = root.value["brokers"].value if "brokers" in root.value else {}
        for namespace, name in (called(part) for kind, part in self._found if kind == "Broker"):
            said = own.get(section_name(namespace, name or ""))
            if not (said and isinstance(said.value, dict) and "ingress" in said.value):
                found[f"{namespace}/{name}"] = f"http://{LISTEN}{ingress_path(namespace, name or '')}"
        return found

    def _entry(self, kind: str, part: Part, objects: Objects) -> _Entry | None:
        part.only(_TOP)
        if kind == "Broker":
            check_policies(part)
        metadata, (namespace, name) = part.part("metadata"), called(part)
        meaning = _READ[kind](Subject(part, namespace, name or "?", objects))
        if not part.has("metadata") or (metadata and not metadata.has("name")):
            (metadata or part).fault(
                "name" if metadata else "metadata", "the name is missing", "add `metadata: {name: …}`"
            )
        if metadata is None or name is None:
            return None
        entry = _Entry(_SECTIONS[kind], section_name(namespace, name), metadata, meaning)
        return entry if self._named(entry, namespace, name) else None

    def _named(self, entry: _Entry, namespace: str, name: str) -> bool:
        place = entry.place
        try:
            _NAME.validate_python(entry.name)
        except ValidationError:
            place.fault("name", f"`{entry.name}` can't be a name", f"a name is made of {NAME_RULE}")
            return False
        first = self.origins.get((entry.section, entry.name))
        if first is not None:
            message = f"`{namespace}/{name}` is defined twice; first in {first.file}:{first.line}"
            place.fault("name", message, "rename or remove one of them")
            return False
        origin = Manifest(namespace, name, place.node.file, place.line("name"))
        self.origins[entry.section, entry.name] = origin
        return True

    def _put(self, root: Node, entry: _Entry) -> None:
        file, line = entry.place.node.file, entry.place.line("name")
        if entry.section not in root.value:
            root.value[entry.section] = Node({}, file, line)
            root.lines[entry.section] = line
        section = root.value[entry.section]
        own = section.value.get(entry.name)
        if own is not None and not isinstance(own.value, dict):
            return  # a fault of its own
        target = copy_of(own) if own else Node({}, file, line)
        section.value[entry.name] = target
        section.lines.setdefault(entry.name, line)
        path: Keys = (entry.section, entry.name)
        self.bad |= {(*path, *bad) for bad in entry.meaning.bad}
        self._overlay(target, entry.meaning.keys, path)
        _fill(target, entry.meaning.defaults)

    def _overlay(self, target: Node, keys: Mapping[str, Node], path: Keys) -> None:
        """Adds a manifest's keys to those of our own vocabulary; none may be in both."""
        for key, node in keys.items():
            own = target.value.get(key)
            if own is None:
                target.value[key] = node
                target.lines[key] = node.line
            elif node.written is None and isinstance(own.value, dict) and isinstance(node.value, dict):
                target.value[key] = copy_of(own)
                self._overlay(target.value[key], node.value, (*path, key))
            else:
                message = f"the manifest sets this too: {node.written or key} in {node.file}:{node.line}"
                self._fault(message, dotted((*path, key)), own.file, target.lines[key], "remove one of them")

    def _fault(self, message: str, path: str, file: str, line: int, remedy: str) -> None:
        self.notes.faults.append(Fault(message, path, file, line, remedy))


def called(part: Part) -> tuple[str, str | None]:
    """A manifest's namespace and name."""
    metadata = part.part("metadata")
    if metadata is None:
        return "default", None
    return metadata.text("namespace") or "default", metadata.text("name")


def _fill(target: Node, defaults: Mapping[str, Node]) -> None:
    for key, node in defaults.items():
        own = target.value.get(key)
        if own is None:
            target.value[key] = node
            target.lines[key] = node.line
        elif isinstance(own.value, dict) and isinstance(node.value, dict):
            target.value[key] = copy_of(own)
            _fill(target.value[key], node.value)
