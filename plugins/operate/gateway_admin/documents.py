"""Triggers in a request's body: the section `triggers`, or documents that a plugin reads, in YAML or JSON.

Each trigger becomes its own documents, in the form of a config file; faults keep the line in the body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway_api.routes import JSON, Problem, Request

from gateway_core.contract.components import Components
from gateway_core.contract.config_extension import DocumentKind
from gateway_core.contract.config_node import Node
from gateway_core.contract.config_yaml import read
from gateway_core.contract.configs import kind_of
from gateway_core.contract.errors import ConfigError, Fault

from .permits import Permits

Triggers = dict[str, list[Node]]
"""Documents by the trigger's name in the config."""

_ONLY = "only triggers can be applied to a running gateway"
_FAULTY = "the body has errors; nothing was changed"
_ELSEWHERE = "put everything else in the config's files: the gateway reloads them"


def entries(request: Request, registry: Components, env: Mapping[str, str], permits: Permits) -> Triggers:
    """The triggers of a body with sections, or documents of the plugins' kinds. Raises `Problem` with all faults."""
    found: Triggers = {}
    faults: list[Fault] = []
    for document in _documents(request, permits):
        for name, own in _opened(document, _kind(document, registry), permits.environment(env), faults):
            found.setdefault(name, []).append(own)
    _raise(faults)
    if not found:
        hints = [f", or {kind.trigger_hint}" for kind, _ in registry.documents.values() if kind.triggers]
        raise Problem(422, f"there is no trigger in the body: write `triggers:`{''.join(hints)}")
    return found


def entry(request: Request, name: str, registry: Components, env: Mapping[str, str], permits: Permits) -> Triggers:
    """One trigger: in the form of `entries`, or only the value under its name. Raises `Problem`."""
    documents = _documents(request, permits)
    if len(documents) == 1 and not _kind(documents[0], registry) and "triggers" not in documents[0].value:
        return {name: [_section(name, documents[0], documents[0].line)]}
    found = entries(request, registry, env, permits)
    if set(found) != {name}:
        told = ", ".join(f"`{n}`" for n in found)
        raise Problem(422, f"the body defines {told}, not `{name}` alone: use POST /api/v1/apply for several")
    return found


def _documents(request: Request, permits: Permits) -> Sequence[Node]:
    body = request.body
    if request.media == JSON:
        body = _as_yaml(body)
    reading = read(body, "")
    _raise(reading.faults)
    if not reading.documents:
        raise Problem(422, "the body is empty")
    if faults := [fault for document in reading.documents for fault in permits.texts(document)]:
        raise not_permitted(faults)
    return reading.documents


def not_permitted(faults: Sequence[Fault]) -> Problem:
    """The problem of a trigger that reaches for more than an applied one may."""
    return Problem(403, "an applied trigger may not reach this; nothing was changed", faults)


def _as_yaml(body: bytes) -> bytes:
    """JSON that YAML reads in the same way: a surrogate pair is one character only in JSON."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as e:
        line = getattr(e, "lineno", 0)
        fault = Fault(f"not JSON: {getattr(e, 'msg', e)}", line=line)
        raise Problem(422, "the body is not JSON", [fault]) from None
    if b"\\u" not in body:
        return body
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem(422, "the body contains half of a surrogate pair") from None


def _kind(document: Node, registry: Components) -> DocumentKind | None:
    try:
        return kind_of(document, registry)
    except ConfigError as e:
        raise Problem(422, _FAULTY, e.faults) from e


def _opened(
    document: Node, kind: DocumentKind | None, env: Mapping[str, str], faults: list[Fault]
) -> Iterator[tuple[str, Node]]:
    if kind is not None and kind.triggers is None:
        faults.append(Fault(f"{_ONLY}, and a {kind.name} has none", "", "", document.line, _ELSEWHERE))
        return
    if kind is not None and kind.triggers is not None:
        found = kind.triggers(document, env)
        faults += found.faults
        yield from found.triggers
        return
    for key, node in document.value.items():
        if key != "triggers":
            faults.append(Fault(_ONLY, key, "", document.lines[key], _ELSEWHERE))
        elif not isinstance(node.value, dict):
            faults.append(Fault("expected a mapping of names", key, "", node.line))
        else:
            for name, inner in node.value.items():
                yield name, _section(name, inner, node.lines[name])


def _section(name: str, node: Node, line: int) -> Node:
    triggers, document = Node({name: node}, "", line), Node({}, "", line)
    triggers.lines = {name: line}
    document.value["triggers"] = triggers
    document.lines = {"triggers": line}
    return document


def _raise(faults: Sequence[Fault]) -> None:
    if faults:
        raise Problem(422, _FAULTY, faults)


def plain(node: Node) -> Any:
    """The value of a node, with texts as they are written."""
    if isinstance(node.value, dict):
        return {key: plain(inner) for key, inner in node.value.items()}
    return [plain(inner) for inner in node.value] if isinstance(node.value, list) else node.value
