"""Triggers in a request's body: of our own vocabulary, or Knative manifests, in YAML or JSON.

Each becomes documents of its own, in the form that a config file has; faults keep the line of the body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from ..config.manifest_part import Notes, Part
from ..config.manifest_spec import section_name
from ..config.manifests import VERSION, called, is_manifest
from ..config.yaml import Node, read
from ..errors import Fault
from .http import JSON, Problem, Request

Triggers = dict[str, list[Node]]
"""Documents by the trigger's name in our vocabulary."""

_ONLY = "only triggers can be applied while the gateway runs"
_ELSEWHERE = "put everything else in the config's files: the gateway follows them"


def entries(request: Request, env: Mapping[str, str]) -> Triggers:
    """The triggers of a body with sections or manifests. Raises `Problem` with all faults."""
    found: Triggers = {}
    faults: list[Fault] = []
    for document in _documents(request):
        for name, own in _opened(document, env, faults):
            found.setdefault(name, []).append(own)
    _raise(faults)
    if not found:
        raise Problem(422, "there is no trigger in the body: write `triggers:`, or manifests of `kind: Trigger`")
    return found


def entry(request: Request, name: str, env: Mapping[str, str]) -> Triggers:
    """One trigger: as `entries` has it, or only what stands under its name. Raises `Problem`."""
    documents = _documents(request)
    if len(documents) == 1 and not is_manifest(documents[0]) and "triggers" not in documents[0].value:
        return {name: [_section(name, documents[0], documents[0].line)]}
    found = entries(request, env)
    if set(found) != {name}:
        told = ", ".join(f"`{n}`" for n in found)
        raise Problem(422, f"the body defines {told}, not `{name}` alone: use POST /api/v1/apply for several")
    return found


def _documents(request: Request) -> Sequence[Node]:
    body = request.body
    if request.media == JSON:
        body = _as_yaml(body)
    reading = read(body, "")
    _raise(reading.faults)
    if not reading.documents:
        raise Problem(422, "the body is empty")
    return reading.documents


def _as_yaml(body: bytes) -> bytes:
    """JSON that YAML reads the same: pairs of surrogates are one character in JSON only."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as e:
        line = getattr(e, "lineno", 0)
        fault = Fault(f"not JSON: {getattr(e, 'msg', e)}", line=line)
        raise Problem(422, "the body is no JSON", [fault]) from None
    if b"\\u" not in body:
        return body
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem(422, "the body has half a surrogate pair") from None


def _opened(document: Node, env: Mapping[str, str], faults: list[Fault]) -> Iterator[tuple[str, Node]]:
    if is_manifest(document):
        yield from _manifest(Part(document, "", Notes(env)), faults)
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


def _manifest(part: Part, faults: list[Fault]) -> Iterator[tuple[str, Node]]:
    version, kind = part.text("apiVersion"), part.text("kind")
    if kind in ("List", "TriggerList") and part.has("items") and isinstance(part.node.value["items"].value, list):
        for item in part.node.value["items"].value:
            if isinstance(item.value, dict):
                yield from _manifest(Part(item, "", part.notes), faults)
    elif (version, kind) != (VERSION, "Trigger"):
        text = f"{_ONLY}, not `{kind or '?'}` of `{version or '?'}`"
        faults.append(Fault(text, "kind", "", part.line("kind"), f"a trigger has `apiVersion: {VERSION}`"))
    else:
        namespace, name = called(part)
        yield section_name(namespace, name or ""), part.node


def _raise(faults: Sequence[Fault]) -> None:
    if faults:
        raise Problem(422, "the body has faults; nothing was changed", faults)
