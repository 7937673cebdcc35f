"""Documents of a config that are not sections. Plugins define what they add to the sections (`DocumentKind`)."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from ..contract.config_extension import DocumentContent, DocumentEntry, DocumentKind, DocumentOrigin
from ..contract.config_node import Node, Place, dotted
from ..contract.errors import ConfigError, Fault
from .explain import NAME_RULE
from .model import GatewayConfig, Name
from .registry import Registry
from .sections import form_of, section_names

_NAME: TypeAdapter[str] = TypeAdapter(Name)


def kind_of(document: Node, registry: Registry) -> DocumentKind | None:
    """The kind of a document, None if it consists of sections.

    Raises `ConfigError` if two kinds match, or if a plugin fails to say whether its kind does.
    """
    if not document.value.keys().isdisjoint(section_names(registry)):
        return None
    matching = [(kind, plugin) for kind, plugin in registry.documents.values() if _matches(kind, plugin, document)]
    first = [found for found in matching if not found[0].fallback] or matching
    if len(first) > 1:
        kinds = " and ".join(f"`{kind.name}` (plugin `{plugin}`)" for kind, plugin in first)
        remedy = "remove one of the plugins, or write the document so that only one of them takes it"
        raise ConfigError([Fault(f"the document is of two kinds: {kinds}", "", document.file, document.line, remedy)])
    return first[0][0] if first else None


def _matches(kind: DocumentKind, plugin: str, document: Node) -> bool:
    try:
        return kind.matches(document)
    except Exception as e:
        text = f"the plugin `{plugin}` failed to look at this document: {type(e).__name__}: {e}"
        raise ConfigError([Fault(text, "", document.file, document.line)]) from e


class Documents:
    """The documents of one config. They are merged into the sections once all files are read, so neither their order
    nor that of the files matters.

    `faulty` holds the paths in the sections whose values already have a fault, `origins` where entries came from.
    """

    def __init__(self, registry: Registry, env: Mapping[str, str]) -> None:
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.faulty: set[Place] = set()
        self.origins: dict[tuple[str, str], DocumentOrigin] = {}
        self._registry = registry
        self._env = env
        self._found: dict[str, list[Node]] = {name: [] for name in registry.documents}

    def take(self, document: Node) -> bool:
        """Takes a document if a plugin has a kind for it, and says whether it did. Raises `ConfigError` (`kind_of`)."""
        kind = kind_of(document, self._registry)
        if kind is not None:
            self._found[kind.name].append(document)
        return kind is not None

    def merge(self, root: Node) -> None:
        """Puts what the documents mean into the sections."""
        for name in self._registry.sections:
            _remember_paths(name, root)
        for name, (kind, plugin) in self._registry.documents.items():
            content = self._read(kind, plugin, self._found[name], root)
            self.faults += content.faults
            self.warnings += content.warnings
            for entry in content.entries:
                if self._is_valid(entry, plugin):
                    self._put(root, entry, kind)

    def _read(self, kind: DocumentKind, plugin: str, documents: list[Node], root: Node) -> DocumentContent:
        try:
            return kind.read(documents, root.value, self._env)
        except Exception as e:
            file, line = (documents[0].file, documents[0].line) if documents else (root.file, 0)
            text = f"the plugin `{plugin}` failed to read documents of the kind `{kind.name}`: {type(e).__name__}: {e}"
            return DocumentContent(faults=[Fault(text, "", file, line)])

    def _is_valid(self, entry: DocumentEntry, plugin: str) -> bool:
        origin = entry.origin
        if form_of(entry.section, self._registry) is not dict:
            text = f"the plugin `{plugin}` adds to `{entry.section}`, which has no named entries"
            self._at(origin, text, "")
            return False
        if entry.section in GatewayConfig.model_fields:
            try:
                _NAME.validate_python(entry.name)
            except ValidationError:
                self._at(origin, f"`{entry.name}` can't be a name", f"a name is made of {NAME_RULE}")
                return False
        first = self.origins.get((entry.section, entry.name))
        if first is not None:
            name = f"{origin.namespace}/{origin.name}" if origin.namespace else origin.name
            message = f"`{name}` is defined twice; first in {first.file}:{first.line}"
            self._at(origin, message, "rename or remove one of them")
            return False
        self.origins[entry.section, entry.name] = origin
        return True

    def _at(self, origin: DocumentOrigin, message: str, remedy: str) -> None:
        self.faults.append(Fault(message, origin.path, origin.file, origin.line, remedy))

    def _put(self, root: Node, entry: DocumentEntry, kind: DocumentKind) -> None:
        file, line = entry.origin.file, entry.origin.line
        if entry.section not in root.value:
            root.value[entry.section] = Node({}, file, line)
            root.lines[entry.section] = line
        section = root.value[entry.section]
        own = section.value.get(entry.name)
        if own is not None and not isinstance(own.value, dict):
            return  # a fault of its own
        target = own.copy() if own is not None else Node({}, file, line)
        section.value[entry.name] = target
        section.lines.setdefault(entry.name, line)
        path: Place = (entry.section, entry.name)
        self.faulty |= {(*path, *inner) for inner in entry.faulty}
        self._overlay(target, entry.keys, path, kind)
        _fill(target, entry.defaults)

    def _overlay(self, target: Node, keys: Mapping[str, Node], path: Place, kind: DocumentKind) -> None:
        """Adds a document's keys to those that the section has; none may be in both."""
        for key, node in keys.items():
            own = target.value.get(key)
            if own is None:
                target.value[key] = node
                target.lines[key] = node.line
            elif node.written is None and isinstance(own.value, dict) and isinstance(node.value, dict):
                target.value[key] = own.copy()
                self._overlay(target.value[key], node.value, (*path, key), kind)
            else:
                message = f"the {kind.name} sets this too: {node.written or key} in {node.file}:{node.line}"
                at = dotted((*path, key))
                self.faults.append(Fault(message, at, own.file, target.lines[key], "remove one of them"))


def _remember_paths(section: str, root: Node) -> None:
    """Entries of a plugin's section remember their path in it: a document may copy them into other sections."""
    if section in root.value:
        entries = root.value[section].value
        for name, node in entries.items():
            entries[name] = node.copy(written=dotted((section, name)))


def _fill(target: Node, defaults: Mapping[str, Node]) -> None:
    for key, node in defaults.items():
        own = target.value.get(key)
        if own is None:
            target.value[key] = node
            target.lines[key] = node.line
        elif isinstance(own.value, dict) and isinstance(node.value, dict):
            target.value[key] = own.copy()
            _fill(target.value[key], node.value)
