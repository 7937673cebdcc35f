"""Knative manifests as config: `kind: Broker`, `kind: Trigger` and `kind: EventPolicy` become entries of `brokers`,
`triggers` and `policies`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gateway_core.contract.config_extension import DocumentContent, DocumentEntry, DocumentOrigin, TriggerDocuments
from gateway_core.contract.config_node import Node, dotted
from gateway_core.contract.errors import Fault
from gateway_core.contract.faults import near
from gateway_core.contract.model_errors import show

from .destinations import Objects
from .event_policies import Targets, check_applied, event_policy, namespaced
from .features import Features, features_of
from .labels import labels_of
from .part import Notes, Part, mapping
from .restrictions import GROUP, POLICY_VERSION, restricts
from .spec import LISTEN, Meaning, Subject, broker, ingress_path, section_name, trigger

VERSION = f"{GROUP}/v1"
_SECTIONS = {"Broker": "brokers", "Trigger": "triggers", "EventPolicy": "policies"}
_VERSIONS = {"Broker": VERSION, "Trigger": VERSION, "EventPolicy": POLICY_VERSION}
_READ = {"Broker": broker, "Trigger": trigger}
_LISTS = {("v1", "List"), *((version, f"{kind}List") for kind, version in _VERSIONS.items())}
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_REF = re.compile(r"[^/\s]+(/[^/\s]+){1,4}")


def read(documents: Sequence[Node], sections: Mapping[str, Node], env: Mapping[str, str]) -> DocumentContent:
    """Converts manifests to entries of a config with these sections."""
    manifests = _Manifests(env)
    entries = manifests.read(documents, sections)
    return DocumentContent(entries, manifests.notes.faults, manifests.notes.warnings)


def triggers(document: Node, env: Mapping[str, str]) -> TriggerDocuments:
    """The triggers in a manifest: itself, or the items of a list. Faults inside them are found when they are loaded as
    part of a config."""
    faults: list[Fault] = []
    found = list(_triggers(Part(document, "", Notes(env)), faults))
    return TriggerDocuments(found, faults)


class _Manifests:
    """The manifests of one config."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.notes = Notes(env)
        self._features: Features | None = None

    def read(self, documents: Sequence[Node], sections: Mapping[str, Node]) -> list[DocumentEntry]:
        """The entries for all manifests."""
        found = [item for document in documents for item in self._opened(Part(document, "", self.notes))]
        refs = sections.get("refs")
        for name in ("refs", "subjects"):
            if name in sections:
                self._check_objects(name, sections[name])
        objects = Objects(refs, self._brokers(found, sections))
        entries = [self._entry(kind, part, objects) for kind, part in found if kind != "EventPolicy"]
        entries += self._policies(found, sections)
        return [entry for entry in entries if entry is not None]

    def _policies(
        self, manifests: Sequence[tuple[str, Part]], sections: Mapping[str, Node]
    ) -> Iterator[DocumentEntry | None]:
        """The entries of `policies`: those of manifests, then those that the ConfigMap `config-features` asks for."""
        features = self._features or Features()
        targets = _targets(manifests, sections)
        about: dict[tuple[str, str], set[str]] = {}  # the policies of each broker
        for kind, part in manifests:
            if kind == "EventPolicy":
                namespace, name = called(part)
                meaning, brokers = event_policy(part, namespace, targets, features.oidc)
                for of in brokers:
                    about.setdefault((namespace, of), set()).add(name or "")
                yield self._made(kind, part, meaning)
        own = _in_section(sections, self.notes.env)
        for kind, part in manifests:
            if kind == "Broker":
                namespace, name = called(part)
                applied = frozenset(about.get((namespace, name or ""), ()))
                ours = own is None or section_name(namespace, name or "") in own
                check_applied(part, applied, features.oidc or ours or bool(applied))
        if own is None:
            return
        left = [b for b in (*targets.manifests, *sorted(targets.others)) if b not in about]
        names = {section_name(namespace, name): namespace for namespace, name in left}
        yield from features.entries({n: of for n, of in names.items() if n not in own})

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
        if kind.endswith("List") and (part.has("items") or (version, kind) in _LISTS):
            yield from self._items(part, kind.removesuffix("List"))
            return
        if kind not in _SECTIONS and (features := features_of(part, kind)) is not None:
            if self._features is not None:
                part.fault("kind", "another document has features of senders, too", "keep one of them")
            self._features = features
            return
        if version == _VERSIONS.get(kind):
            yield kind, part
        elif version.startswith(f"{GROUP}/") and kind in _SECTIONS:
            part.warn("apiVersion", f"`{kind}` of `{version}` is ignored", f"write `apiVersion: {_VERSIONS[kind]}`")
        else:
            remedy = near(kind, _SECTIONS) if version.startswith(f"{GROUP}/") else ""
            known = "Tidegate reads `Broker`, `Trigger` and `EventPolicy`"
            part.warn("kind", f"`{kind}` of `{version}` is ignored", remedy or known)

    def _items(self, part: Part, kind: str) -> Iterator[tuple[str, Part]]:
        """The documents in a list. In a list of one kind, the items need not say it."""
        items = part.node.value["items"].value if part.has("items") else []
        if not isinstance(items, list):
            part.fault("items", f"expected a list, found {show(items)}")
            return
        for i, item in enumerate(items):
            path = dotted((part.at("items"), i))
            if isinstance(item.value, dict):
                if kind and "kind" not in item.value:
                    said = {"apiVersion": part.node.value["apiVersion"], "kind": part.made("kind", kind)}
                    item = mapping({**said, **item.value}, item.file, item.line)
                yield from self._opened(Part(item, path, self.notes))
            else:
                self._fault(f"expected a mapping, found {show(item.value)}", path, item.file, item.line, "")

    def _check_objects(self, name: str, section: Node) -> None:
        for key, node in section.value.items():
            if not _REF.fullmatch(key):
                remedy = "write `Kind/name` or `Kind/namespace/name`, optionally with `apiVersion/` in front"
                path = dotted((name, key))
                self._fault(f"`{key}` does not name an object", path, node.file, section.lines[key], remedy)

    def _brokers(self, manifests: Sequence[tuple[str, Part]], sections: Mapping[str, Node]) -> dict[str, str]:
        """The addresses of the brokers, except those that the config gives another ingress."""
        found: dict[str, str] = {}
        own = sections["brokers"].value if "brokers" in sections else {}
        for namespace, name in (called(part) for kind, part in manifests if kind == "Broker"):
            said = own.get(section_name(namespace, name or ""))
            if not (said and isinstance(said.value, dict) and "ingress" in said.value):
                found[f"{namespace}/{name}"] = f"http://{LISTEN}{ingress_path(namespace, name or '')}"
        return found

    def _entry(self, kind: str, part: Part, objects: Objects) -> DocumentEntry | None:
        namespace, name = called(part)
        return self._made(kind, part, _READ[kind](Subject(part, namespace, name or "?", objects)))

    def _made(self, kind: str, part: Part, meaning: Meaning) -> DocumentEntry | None:
        part.only(_TOP)
        metadata, (namespace, name) = part.part("metadata"), called(part)
        if not part.has("metadata") or (metadata and not metadata.has("name")):
            (metadata or part).fault(
                "name" if metadata else "metadata", "the name is missing", "add `metadata: {name: …}`"
            )
        if metadata is None or name is None:
            return None
        place = (metadata.node.file, metadata.line("name"), metadata.at("name"))
        origin = DocumentOrigin(kind, name, namespace, *place)
        ours = section_name(namespace, name)
        return DocumentEntry(_SECTIONS[kind], ours, origin, meaning.keys, meaning.defaults, frozenset(meaning.bad))

    def _fault(self, message: str, path: str, file: str, line: int, remedy: str) -> None:
        self.notes.faults.append(Fault(message, path, file, line, remedy))


def called(part: Part) -> tuple[str, str | None]:
    """A manifest's namespace and name."""
    metadata = part.part("metadata")
    if metadata is None:
        return "default", None
    return metadata.text("namespace") or "default", metadata.text("name")


def _targets(manifests: Sequence[tuple[str, Part]], sections: Mapping[str, Node]) -> Targets:
    found = {}
    for kind, part in manifests:
        namespace, name = called(part)
        if kind == "Broker" and name is not None:
            found[namespace, name] = labels_of(part)
    known = {section_name(*key) for key in found}
    own = sections["brokers"].value if "brokers" in sections else {}
    return Targets(found, frozenset(namespaced(b) for b in own if b not in known), sections.get("subjects"))


def _in_section(sections: Mapping[str, Node], env: Mapping[str, str]) -> set[str] | None:
    """The brokers that policies of the config's own section name; None if one is about all of them. What can't be read
    is a fault of its own, which the loader reports."""
    found: set[str] = set()
    for policy in sections["policies"].value.values() if "policies" in sections else ():
        if not isinstance(policy.value, dict) or "brokers" not in policy.value:
            continue
        part = Part(policy, "", Notes(env))
        if isinstance(policy.value["brokers"].value, list):
            found.update(part.texts("brokers"))
        elif part.text("brokers") == "all":
            return None
    return found


def _triggers(part: Part, faults: list[Fault]) -> Iterator[tuple[str, Node]]:
    version, kind = part.text("apiVersion"), part.text("kind")
    if kind in ("List", "TriggerList") and part.has("items") and isinstance(part.node.value["items"].value, list):
        for item in part.node.value["items"].value:
            if isinstance(item.value, dict):
                yield from _triggers(Part(item, "", part.notes), faults)
    elif (version, kind) != (VERSION, "Trigger"):
        text = f"only triggers can be applied to a running gateway, not `{kind or '?'}` of `{version or '?'}`"
        faults.append(Fault(text, "kind", "", part.line("kind"), f"a trigger has `apiVersion: {VERSION}`"))
    else:
        namespace, name = called(part)
        yield section_name(namespace, name or ""), part.node
