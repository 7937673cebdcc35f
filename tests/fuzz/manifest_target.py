"""Knative manifests: any document means entries of a config, or has faults and warnings with a place and words.

An input is a document in JSON, or a list of them: YAML is the target `config`'s. One without `kind` and `apiVersion`
has the sections of the config.
"""

from __future__ import annotations

from typing import Any

import msgspec
from gateway_knative.manifests import read, triggers

from gateway_core.contract.config_node import Node
from gateway_core.contract.config_yaml import MAX_DEPTH
from gateway_core.contract.faults import render
from tests.fuzz.checks import check_plain

_ENV = {"NAME": "value"}


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    documents: list[Node] = []
    sections: dict[str, Node] = {}
    for document in found if isinstance(found, list) else [found]:
        node = _node(document)
        if node.height > MAX_DEPTH or not isinstance(node.value, dict):
            return
        if "kind" in node.value or "apiVersion" in node.value:
            documents.append(node)
        else:
            # the config refuses sections that are no mappings, before it reads manifests
            sections.update({name: section for name, section in node.value.items() if isinstance(section.value, dict)})
    content = read(documents, sections, _ENV)
    for fault in [*content.faults, *content.warnings]:
        assert fault.message
    check_plain(render([*content.faults, *content.warnings]))
    known = {(entry.section, entry.name) for entry in content.entries}
    assert all(section in ("brokers", "triggers", "policies") for section, _ in known)
    assert all(name for _, name in known)
    again = read(documents, sections, _ENV)
    assert [(e.section, e.name) for e in again.entries] == [(e.section, e.name) for e in content.entries]
    assert again.faults == content.faults, "reading changes the documents"
    for document in documents:
        told = triggers(document, _ENV)
        assert all(fault.message for fault in told.faults)


def _node(value: Any) -> Node:
    node = Node(value, "main.yaml", 1)
    if isinstance(value, dict):
        node.value = {name: _node(inner) for name, inner in value.items()}
        node.lines = dict.fromkeys(value, 1)
        children = list(node.value.values())
    elif isinstance(value, list):
        children = node.value = list(map(_node, value))
    else:
        return node
    node.size += sum(child.size for child in children)
    node.height = 1 + max((child.height for child in children), default=0)
    return node


def _manifest(kind: str, spec: str, version: str = "eventing.knative.dev/v1") -> bytes:
    head = f'"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"a","namespace":"n"}}'
    return f'{{{head},"spec":{spec}}}'.encode()


_SERVICE = '{"ref":{"apiVersion":"v1","kind":"Service","name":"s","namespace":"m"},"uri":"/p"}'
_TRIGGERS = [
    '{"broker":"default","subscriber":{"uri":"http://h/"},"filter":{"attributes":{"type":"t"}}}',
    f'{{"subscriber":{_SERVICE}}}',
    '{"filters":[{"all":[{"exact":{"type":"t"}},{"prefix":{"source":"/s"}}]},{"cesql":"x = 1"}],"subscriber":{}}',
    '{"filters":[{"not":{"suffix":{"id":"1"}}},{"any":[]}],"delivery":{"retry":3,"backoffPolicy":"linear","backoffDelay":"PT1.5S"}}',
    f'{{"delivery":{{"timeout":"P1DT2H3M4.5S","deadLetterSink":{_SERVICE},"retryAfterMax":"PT1S"}}}}',
]
_POLICY = "eventing.knative.dev/v1alpha1"
_OIDC = (
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"config-features","namespace":"knative-eventing"},'
    b'"data":{"authentication-oidc":"enabled","default-authorization-mode":"deny-all"}}'
)
SEEDS = [
    *(_manifest("Trigger", spec) for spec in _TRIGGERS),
    _manifest("Broker", '{"config":{"kind":"ConfigMap","name":"c"},"delivery":{"format":"json","retry":"x"}}'),
    _manifest(
        "EventPolicy", '{"to":[{"ref":{"apiVersion":"eventing.knative.dev/v1","kind":"Broker","name":"a"}}]}', _POLICY
    ),
    _manifest(
        "EventPolicy",
        '{"from":[{"sub":"s*"},{"ref":{"apiVersion":"v1","kind":"S","name":"s"}}],"filters":[{}]}',
        _POLICY,
    ),
    _manifest("EventPolicy", '{"to":[{"selector":{"matchLabels":{"a":"b"},"kind":"Broker"}}]}', _POLICY),
    b'{"apiVersion":"v1","kind":"List","items":['
    + _manifest("Broker", "{}")
    + b","
    + _manifest("Trigger", "null")
    + b"]}",
    b"[" + _OIDC + b"," + _manifest("Broker", "{}") + b"]",
    b'[{"refs":{"Service/m/s":"http://h/","x":5},"subjects":{"S/n/s":["a",1]}},'
    + _manifest("Trigger", _TRIGGERS[1])
    + b"]",
    b'{"apiVersion":"","kind":"Trigger","metadata":{"name":"A_b","labels":{"eventing.knative.dev/broker":"x"}}}',
    b'{"kind":5,"apiVersion":[]}',
]
WORDS = [
    *(b'"apiVersion":"eventing.knative.dev/v1"', b'"kind":"Trigger"', b'"kind":"Broker"', b'"kind":"EventPolicy"'),
    *(b'"spec":', b'"metadata":{"name":"a"}', b'"namespace":"', b'"broker":"default"', b'"subscriber":', b'"uri":"'),
    *(b'"ref":', b'"filters":[', b'"exact":{', b'"prefix":{', b'"suffix":{', b'"all":[', b'"any":[', b'"not":{'),
    *(b'"cesql":"', b'"delivery":{', b'"retry":', b'"backoffDelay":"PT1S"', b'"backoffPolicy":"'),
    *(b'"deadLetterSink":', b'"timeout":"', b'"items":[', b'"kind":"List"', b'"refs":{', b'"subjects":{', b'"from":['),
    *(b'"to":[', b'"sub":"', b"v1alpha1", b'"labels":{', b'"annotations":{', b'"selector":{', b'"matchLabels":{'),
    *(b'"matchExpressions":[', b'"data":{', b"null", b"true", b"1e999", b"{}", b"[]", b",", b"${NAME}"),
    *(b"${secret:x}", b"P1Y", b"PT99999999999S", b"-1", b"\\u0000", b"\\u0085", b"http://", b"eventing.knative.dev/"),
]  # fmt: skip
