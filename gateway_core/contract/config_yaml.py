"""Reads YAML 1.2 (core schema) into nodes that know their file and line.

Two parsers find the same events. libyaml (`ruamel.yaml.clib`) is tried first: it is twenty times as fast (10,000
triggers: 0.2 s of CPU against 3.7 s). It knows YAML 1.1 only and refuses some of 1.2 (`{url: http://host/}`), so what
it refuses goes to ruamel.yaml's own parser, which has the last word and words the fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.error import YAMLError

from .config_node import Node
from .errors import Fault

try:
    from _ruamel_yaml import CParser as _CParser
except ImportError:  # no wheel for this platform
    _CParser = None

MAX_DEPTH = 64
MAX_BYTES = 64 * 1024 * 1024
MAX_EXPANDED = 1_000_000  # values that a document's aliases may stand for in all

_CORE = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]{1,400}|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def scalar(text: str) -> Any:
    """The value of plain text by YAML 1.2's core schema (10.3.2): null, boolean, number, else the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-.0123456789":
        if _INT.fullmatch(text):
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if _FLOAT.fullmatch(text):
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


@dataclass
class Reading:
    """What a file gave: one node a document (always mappings), and what is wrong with it."""

    documents: list[Node] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


class _Stop(Exception):
    """The rest of the file can't be read."""

    def __init__(self, message: str, line: int, remedy: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.remedy = remedy


def read(data: bytes, file: str) -> Reading:
    """Reads all documents of a file. Never raises: what is wrong is in `faults`."""
    try:
        text = _decode(data)
    except _Stop as e:
        return Reading(faults=[Fault(str(e), "", file, e.line, e.remedy)])
    if _CParser is not None:
        try:
            return _compose(_CParser(text).get_event, file)
        except YAMLError:
            pass  # perhaps YAML 1.2
    try:
        return _compose(iter(YAML(typ="safe", pure=True).parse(text)).__next__, file)
    except YAMLError as e:
        return Reading(faults=[_syntax(e, text, file)])


def _compose(next_event: Callable[[], Any], file: str) -> Reading:
    reading = Reading()
    try:
        _Composer(next_event, file, reading).documents()
    except _Stop as e:
        reading.faults.append(Fault(str(e), "", file, e.line, e.remedy))
    return reading


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise _Stop(f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB", 0)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise _Stop(f"not UTF-8 text: byte 0x{data[e.start]:02x}", line, "save the file as UTF-8") from None
    for found in _UNPRINTABLE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        raise _Stop(f"the character U+{ord(found[0]):04X} isn't allowed in YAML", line, "remove it")
    return text


_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def _syntax(error: YAMLError, text: str, file: str) -> Fault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark else 0
    problem = getattr(error, "problem", None) or "can't be read"
    context = getattr(error, "context", None)
    lines = text.splitlines()
    written = lines[line - 1] if 0 < line <= len(lines) else ""
    remedy = ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        remedy = "indent with spaces: YAML allows no tabs there"
    elif "${" in written and "flow" in (context or ""):
        remedy = "inside { } and [ ] put text with `${…}` in quotes"
    elif problem == "mapping values are not allowed in this context":
        remedy = "check the indentation; text that has `: ` in it needs quotes"
    return Fault(f"not YAML: {problem}" + (f" ({context})" if context else ""), "", file, line, remedy)


class _Composer:
    """Builds nodes from a parser's events, for one file."""

    def __init__(self, next_event: Callable[[], Any], file: str, reading: Reading) -> None:
        self._next = next_event
        self._file = file
        self._reading = reading
        self._anchors: dict[str, Node | None] = {}
        self._expanded = 0

    def documents(self) -> None:
        while not isinstance(event := self._next(), events.StreamEndEvent):
            if not isinstance(event, events.DocumentStartEvent):
                continue
            self._anchors = {}
            self._expanded = 0
            node = self._node(self._next(), 0)
            if isinstance(node.value, dict):
                self._reading.documents.append(node)
            elif node.value is not None:
                self._fault("expected sections (`brokers:`, `triggers:`, …) at the top of the file", node.line)

    def _fault(self, message: str, line: int, remedy: str = "") -> None:
        self._reading.faults.append(Fault(message, "", self._file, line, remedy))

    def _node(self, event: Any, depth: int) -> Node:
        line = event.start_mark.line + 1
        if isinstance(event, events.AliasEvent):
            return self._alias(event.anchor, line, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = None  # not usable inside itself
        if isinstance(event, events.ScalarEvent):
            node = self._scalar(event, line)
        else:
            if depth >= MAX_DEPTH:
                raise _Stop(f"values are nested deeper than {MAX_DEPTH} levels", line)
            collect = self._mapping if isinstance(event, events.MappingStartEvent) else self._sequence
            node = collect(event, line, depth + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, anchor: str, line: int, depth: int) -> Node:
        if anchor not in self._anchors:
            raise _Stop(f"alias `*{anchor}` has no anchor `&{anchor}` before it", line)
        node = self._anchors[anchor]
        if node is None:
            raise _Stop(f"alias `*{anchor}` stands inside its own anchor", line)
        self._expanded += node.size
        if self._expanded > MAX_EXPANDED or depth + node.height > MAX_DEPTH:
            raise _Stop("aliases stand for too many values", line, "write fewer aliases of aliases")
        return node

    def _scalar(self, event: Any, line: int) -> Node:
        text: str = event.value
        plain = event.style in (None, "")
        tag = event.tag
        if tag is None or tag == "!":
            return Node(scalar(text) if plain and tag is None else text, self._file, line, plain)
        kind = tag.removeprefix(_CORE)
        value = text if kind == "str" else scalar(text)
        fits: Any = {"str": str, "int": int, "bool": bool, "null": type(None), "float": (int, float)}.get(kind)
        if fits is None or not isinstance(value, fits):
            self._fault(f"the tag `{tag.replace(_CORE, '!!')}` can't be used here", line, "remove the tag")
        return Node(value, self._file, line)

    def _tagged(self, event: Any, kind: str, line: int) -> None:
        if event.tag not in (None, "!", _CORE + kind):
            self._fault(f"the tag `{event.tag.replace(_CORE, '!!')}` can't be used here", line, "remove the tag")

    def _sequence(self, event: Any, line: int, depth: int) -> Node:
        self._tagged(event, "seq", line)
        items: list[Node] = []
        node = Node(items, self._file, line)
        while not isinstance(event := self._next(), events.SequenceEndEvent):
            items.append(self._grow(node, self._node(event, depth)))
        return node

    def _mapping(self, event: Any, line: int, depth: int) -> Node:
        self._tagged(event, "map", line)
        items: dict[str, Node] = {}
        node = Node(items, self._file, line)
        merges: list[tuple[Node, int]] = []
        while not isinstance(event := self._next(), events.MappingEndEvent):
            at = event.start_mark.line + 1
            key = self._key(event, depth)
            merge = key == "<<" and event.style in (None, "")
            value = self._grow(node, self._node(self._next(), depth))
            if merge:
                merges.append((value, at))
            elif key in items:
                self._fault(f"the key `{key}` is here twice; first in line {node.lines[key]}", at, "keep one of them")
            elif key is not None:
                items[key] = value
                node.lines[key] = at
        for value, at in merges:
            self._merge(node, value, at)
        return node

    def _key(self, event: Any, depth: int) -> str | None:
        if isinstance(event, events.ScalarEvent) and event.anchor is None:
            return str(event.value)
        at = event.start_mark.line + 1
        node = self._node(event, depth)
        if isinstance(node.value, dict | list):
            self._fault("a key must be text", at)
            return None
        return str(node.value)

    def _merge(self, node: Node, value: Node, at: int) -> None:
        """YAML 1.1's merge key, which people use with anchors: the keys written out win."""
        for source in value.value if isinstance(value.value, list) else [value]:
            if not isinstance(source.value, dict):
                self._fault("`<<` takes a mapping, or a list of mappings", at)
                return
            for key, inner in source.value.items():
                if key not in node.value:
                    node.value[key] = inner
                    node.lines[key] = source.lines[key]

    @staticmethod
    def _grow(node: Node, child: Node) -> Node:
        node.size += child.size
        node.height = max(node.height, child.height + 1)
        return child
