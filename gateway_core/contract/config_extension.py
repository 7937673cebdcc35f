"""What a plugin adds to the vocabulary of configs: sections, kinds of documents, and checks of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from .config_node import Node, Place
from .errors import Fault


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """What a check of a whole config found, with its place: a fault, or a `warning` if the config can still be used."""

    message: str
    place: Place
    remedy: str = ""
    warning: bool = False


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """A section of a config: a mapping of names to entries, at the top of a file. Files are merged by name, and a name
    that is defined twice is a fault. The gateway itself does nothing with the entries; the plugin reads them from
    `GatewayConfig.section(name)`, and their places from `Loaded.place(name, entry)`.

    `name`     the key at the top of a config file; unique, and none of the gateway's own sections.
    `summary`  what the section is for, for the editor schema and the reference page.
    `entry`    the type of an entry: a config model, or a reference to a component (`SinkRef`); or a function that
               imports and returns it. A model with the method `warnings` can also warn of unwise entries (`Config`).
    `file_suffix`  how the plugin's own files end before `.yaml` or `.yml` (".scenario"). They may lie next to a config
               and are never read as part of it. "" if the plugin has no such files.
    """

    name: str
    summary: str
    entry: Any
    file_suffix: str = ""

    @property
    def model(self) -> Any:
        """The type of an entry, imported at first use."""
        return self.entry() if isinstance(self.entry, FunctionType) else self.entry


@dataclass(frozen=True, slots=True)
class DocumentOrigin:
    """The object in a document that an entry of the config came from. Two origins are equal if they name the same
    object, wherever it is written.

    `kind`       the document's own word for what it describes ("Trigger").
    `name`       the object's name in the document; in the config it may have another one.
    `namespace`  the namespace of the name, "" if the kind has none.
    `file`       where the name is written, with `line`; `path` is the path of keys that leads to it ("metadata.name").
    """

    kind: str
    name: str
    namespace: str = ""
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    path: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """An entry that a document adds to a section. The same entry may stand in the section itself, which then adds keys.

    `section`   the section: one of the gateway's own, or one that a plugin offers.
    `name`      the entry's name in it. A name that two documents define is a fault.
    `origin`    where the entry came from.
    `keys`      its keys. A key that the section itself has too is a fault.
    `defaults`  keys that hold if neither the section nor `keys` has them.
    `faulty`    paths inside the entry whose values already have a fault: nothing more is reported about them.
    """

    section: str
    name: str
    origin: DocumentOrigin
    keys: Mapping[str, Node] = field(default_factory=dict)
    defaults: Mapping[str, Node] = field(default_factory=dict)
    faulty: frozenset[Place] = frozenset()


@dataclass(frozen=True, slots=True)
class DocumentContent:
    """What the documents of one kind mean in a config: entries for its sections, faults and warnings."""

    entries: Sequence[DocumentEntry] = ()
    faults: Sequence[Fault] = ()
    warnings: Sequence[Fault] = ()


@dataclass(frozen=True, slots=True)
class TriggerDocuments:
    """The triggers in a document of a request to the admin API: each with its name in the config and a document of its
    own. `faults` reports what else is in it, because only triggers can be applied while the gateway runs."""

    triggers: Sequence[tuple[str, Node]] = ()
    faults: Sequence[Fault] = ()


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of YAML document that a config may have beside its sections. A document that has a section at its top is
    never offered to a kind.

    `name`          what messages call such a document ("manifest"); unique.
    `summary`       one sentence for lists and pages.
    `matches`       whether a document is of this kind. If two kinds match, loading fails with both plugins' names.
    `read`          what the documents mean: (all documents of this kind, the config's sections as they are written,
                    the environment) -> `DocumentContent`. It is called once for each load, when all files are read,
                    even if there is no document of this kind.
    `fallback`      True if the kind also takes documents that it does not know: it gets those that no other matches.
    `triggers`      the triggers in a document of a request to the admin API: (document, environment) ->
                    `TriggerDocuments`. None if the kind describes no triggers.
    `trigger_hint`  how messages describe documents that have triggers ("manifests of `kind: Trigger`").
    """

    name: str
    summary: str
    matches: Callable[[Node], bool]
    read: Callable[[Sequence[Node], Mapping[str, Node], Mapping[str, str]], DocumentContent]
    fallback: bool = False
    triggers: Callable[[Node, Mapping[str, str]], TriggerDocuments] | None = None
    trigger_hint: str = ""
