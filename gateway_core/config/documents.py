"""Documents of a config that are not sections. Plugins define what they add to the sections (`DocumentKind`)."""

from __future__ import annotations

from collections.abc import Mapping

from ..contract.components import Components
from ..contract.config_extension import DocumentContent, DocumentEntry, DocumentKind, DocumentOrigin
from ..contract.config_model import NAME_REMEDY, is_name
from ..contract.config_node import Node, Place, dotted
from ..contract.errors import ConfigError, Fault
from .report import Report
from .sections import sections


def kind_of(document: Node, registry: Components) -> DocumentKind | None:
    """The kind of a document, None if it consists of sections.

    Raises `ConfigError` if two kinds match, or if a plugin fails to say whether its kind does.
    """
    if not document.value.keys().isdisjoint(sections(registry)):
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
    nor that of the files matters. `origins` says where entries came from, by section and name."""

    def __init__(self, root: Node, registry: Components, report: Report) -> None:
        self.origins: dict[tuple[str, str], DocumentOrigin] = {}
        self._root = root
        self._registry = registry
        self._report = report
        self._sections = sections(registry)
        self._found: dict[str, list[Node]] = {name: [] for name in registry.documents}

    def take(self, document: Node) -> bool:
        """Takes a document if a plugin has a kind for it, and says whether it did. Raises `ConfigError` (`kind_of`)."""
        kind = kind_of(document, self._registry)
        if kind is not None:
            self._found[kind.name].append(document)
        return kind is not None

    def merge(self, env: Mapping[str, str]) -> None:
        """Puts what the documents mean into the sections."""
        for name in self._registry.sections:
            if name in self._root.value:  # a document may copy entries of these into other sections
                entries = self._root.value[name].value
                entries.update({key: node.copy(written=dotted((name, key))) for key, node in entries.items()})
        for kind, plugin in self._registry.documents.values():
            content = self._read(kind, plugin, env)
            self._report.add(content.faults, content.warnings)
            for entry in content.entries:
                if self._is_valid(entry, plugin):
                    self._put(entry, kind)

    def _read(self, kind: DocumentKind, plugin: str, env: Mapping[str, str]) -> DocumentContent:
        documents = self._found[kind.name]
        try:
            return kind.read(documents, self._root.value, env)
        except Exception as e:
            file, line = (documents[0].file, documents[0].line) if documents else (self._root.file, 0)
            text = f"the plugin `{plugin}` failed to read documents of the kind `{kind.name}`: {type(e).__name__}: {e}"
            return DocumentContent(faults=[Fault(text, "", file, line)])

    def _is_valid(self, entry: DocumentEntry, plugin: str) -> bool:
        """Whether an entry may be added; if not, reports why."""
        origin, section = entry.origin, self._sections.get(entry.section)
        first = self.origins.get((entry.section, entry.name))
        message = remedy = ""
        if section is None or not section.named:
            message = f"the plugin `{plugin}` adds to `{entry.section}`, which has no named entries"
        elif not section.plugin and not is_name(entry.name):
            message, remedy = f"`{entry.name}` can't be a name", NAME_REMEDY
        elif first is not None:
            name = f"{origin.namespace}/{origin.name}" if origin.namespace else origin.name
            message = f"`{name}` is defined twice; first in {first.file}:{first.line}"
            remedy = "rename or remove one of them"
        if message:
            self._report.add([Fault(message, origin.path, origin.file, origin.line, remedy)])
        return not message

    def _put(self, entry: DocumentEntry, kind: DocumentKind) -> None:
        self.origins[entry.section, entry.name] = entry.origin
        file, line = entry.origin.file, entry.origin.line
        section = self._root.value.setdefault(entry.section, Node({}, file, line))
        self._root.lines.setdefault(entry.section, line)
        own = section.value.get(entry.name)
        if own is not None and not isinstance(own.value, dict):
            return  # a fault of its own
        target = own.copy() if own is not None else Node({}, file, line)
        section.value[entry.name] = target
        section.lines.setdefault(entry.name, line)
        place = (entry.section, entry.name)
        self._report.bad |= {(*place, *inner) for inner in entry.faulty}
        self._add(target, entry.keys, place, kind)
        self._add(target, entry.defaults, place, None)

    def _add(self, target: Node, keys: Mapping[str, Node], place: Place, kind: DocumentKind | None) -> None:
        """Adds keys to a section's. A key in both is a fault if a document (of this `kind`) has it, else a default."""
        for key, node in keys.items():
            own = target.value.get(key)
            moved = kind is not None and node.written is not None
            if own is None:
                target.value[key] = node
                target.lines[key] = node.line
            elif isinstance(own.value, dict) and isinstance(node.value, dict) and not moved:
                target.value[key] = own.copy()
                self._add(target.value[key], node.value, (*place, key), kind)
            elif kind is not None:
                message = f"the {kind.name} sets this too: {node.written or key} in {node.file}:{node.line}"
                at = dotted((*place, key))
                self._report.add([Fault(message, at, own.file, target.lines[key], "remove one of them")])
