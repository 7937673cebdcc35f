"""Events with the messages that carry them, by name: data for tests of codecs, transports and brokers.

Sources: CloudEvents 1.0.2 and 0.3, `spec.md`, the HTTP binding (sections 3.1, 3.2) and the JSON format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from gateway_cloudevents.bindings import HTTP

from gateway_core.contract.component import Binding
from gateway_core.contract.event import Event, Message, text_of

STRUCTURED_TYPE = "application/cloudevents+json; charset=utf-8"
BATCH_TYPE = "application/cloudevents-batch+json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Vector:
    """One event in every form.

    `name`      also the event's `id`.
    `event`     with the types that JSON gives its attributes; headers carry their text.
    `headers`   binary mode over HTTP: what the binding says to write.
    `document`  structured mode: JSON text; JSON data stands in it as it stands in `event.data`.
    """

    name: str
    event: Event
    headers: Mapping[str, str]
    document: str

    @property
    def version(self) -> str:
        return text_of(self.event.attributes["specversion"])

    def with_id(self, id: str) -> Vector:
        """The same event under another id (without characters that need escapes)."""
        old, new = f'"id":"{self.name}"', f'"id":"{id}"'
        changed = self.event.with_attributes(id=id)
        return replace(
            self, event=changed, headers={**self.headers, "ce-id": id}, document=self.document.replace(old, new, 1)
        )

    def binary(self, binding: Binding = HTTP) -> Message:
        """The message in binary mode."""
        pairs = []
        for name, value in self.headers.items():
            if name.startswith("ce-"):
                name = binding.prefix.decode() + name[3:]
                value = value if binding.percent else unquote(value)
            pairs.append((name.encode(), value.encode()))
        body = self.event.data
        return Message(pairs, b"" if body is None and binding.empty_is_none else body)

    def structured(self) -> Message:
        """The message in structured mode, JSON format."""
        return Message([(b"content-type", STRUCTURED_TYPE.encode())], self.document.encode())


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that is no event, and the attribute at fault ("" where it is none)."""

    name: str
    attribute: str
    headers: Mapping[str, str]
    body: bytes = b""

    def message(self, binding: Binding = HTTP) -> Message:
        """The message, over HTTP or another binding."""
        prefix = binding.prefix.decode()
        names = {n: prefix + n[3:] if n.startswith("ce-") else n for n in self.headers}
        return Message([(names[n].encode(), v.encode()) for n, v in self.headers.items()], self.body)


def batch(vectors: list[Vector]) -> Message:
    """One HTTP message with all of these events, in batch mode."""
    body = "[" + ",".join(v.document for v in vectors) + "]"
    return Message([(b"content-type", BATCH_TYPE.encode())], body.encode())


def texts(event: Event) -> dict[str, str]:
    """The attributes as headers carry them: what is the same in all modes."""
    return {name: text_of(value) for name, value in event.attributes.items()}


def same_data(one: bytes | None, other: bytes | None, *, exact: bool = False) -> bool:
    """Whether data is the same: no data and empty data are one here (HTTP can't tell them apart), and JSON text is
    compared as JSON unless it must be `exact`."""
    one, other = one or b"", other or b""
    if one == other or exact:
        return one == other
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def _vector(
    name: str,
    attributes: str = "",
    data: bytes | None = None,
    member: str = "",
    headers: Mapping[str, str] | None = None,
    version: str = "1.0",
) -> Vector:
    """`attributes` and `member` are JSON members as text; `headers` are those that differ from the attributes' text."""
    base = f'"specversion":"{version}","id":"{name}","source":"/tidegate/vectors","type":"com.example.vector"'
    known = "{" + ",".join(filter(None, [base, attributes])) + "}"
    event = Event(json.loads(known), data)
    plain = {f"ce-{n}": v for n, v in texts(event).items() if n != "datacontenttype"}
    if "datacontenttype" in event.attributes:
        plain["content-type"] = event.attributes["datacontenttype"]
    return Vector(name, event, {**plain, **(headers or {})}, known[:-1] + ("," + member if member else "") + "}")


_JSON = '"datacontenttype":"application/json"'

VECTORS = [
    _vector("required-only"),
    _vector("json-object", _JSON, b'{"b": 1.0,  "a":[true,null]}', '"data":{"b": 1.0,  "a":[true,null]}'),
    _vector("json-text", _JSON, b'"caf\xc3\xa9"', '"data":"caf\u00e9"'),
    _vector("json-number", _JSON, b"42", '"data":42'),
    _vector("json-false", _JSON, b"false", '"data":false'),
    _vector("json-array", _JSON, b'[1, {"x": []}]', '"data":[1, {"x": []}]'),
    _vector(
        "json-suffix", '"datacontenttype":"application/vnd.example+json; v=2"', b'{"n":9007199254740993}',
        '"data":{"n":9007199254740993}',
    ),
    _vector("text", '"datacontenttype":"text/plain"', "Grüße, 世界\n".encode(), '"data":"Grüße, 世界\\n"'),
    _vector("xml", '"datacontenttype":"text/xml"', b'<much wow="xml"/>', '"data":"<much wow=\\"xml\\"/>"'),
    _vector("bytes", '"datacontenttype":"application/octet-stream"', b"\x00\xff\r\n\x80", '"data_base64":"AP8NCoA="'),
    _vector("vendor", '"datacontenttype":"application/vnd.apache.thrift.binary"', b"\x80\x01", '"data_base64":"gAE="'),
    _vector(
        "all-attributes",
        '"subject":"flights/1","time":"2026-01-02T03:04:05.10+02:00","dataschema":"https://example.com/schema#a",'
        '"comexampleother":"x","c1d2e3":"y",' + _JSON,
        b"{}", '"data":{}',
    ),
    _vector(
        "escapes", '"subject":"\u20ac 100% \\"so\\" \U0001f600","note":"a b"', None, "",
        {"ce-subject": "%E2%82%AC%20100%25%20%22so%22%20%F0%9F%98%80", "ce-note": "a%20b"},
    ),
    _vector("typed", '"hops":-5,"most":2147483647,"ok":true,"not":false'),
    _vector("trace", '"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1"'),
    _vector("v03-required-only", version="0.3"),
    _vector("v03-json", '"subject":"s","schemaurl":"https://example.com/s","time":"2026-01-02T03:04:05Z",' + _JSON,
            b'{"v": 3}', '"data":{"v": 3}', version="0.3"),
    _vector("v03-text", '"datacontenttype":"text/plain"', b"three", '"data":"three"', version="0.3"),
]  # fmt: skip


def _headers(**without: str) -> dict[str, str]:
    return {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", **without}


_STRUCTURED = {"content-type": STRUCTURED_TYPE}
_REQUIRED = ("specversion", "id", "source", "type")


def _required() -> list[Refusal]:
    """Each required attribute, missing and empty, in both modes and versions."""
    cases = []
    for version in ("1.0", "0.3"):
        for attribute in _REQUIRED:
            members = {"specversion": version, "id": "1", "source": "/s", "type": "t"}
            whole = _headers(**{"ce-specversion": version})
            for state in ("missing", "empty"):
                if state == "missing":
                    del members[attribute], whole[f"ce-{attribute}"]
                else:
                    members[attribute] = whole[f"ce-{attribute}"] = ""
                body = json.dumps(members).encode()
                cases.append(Refusal(f"{version} binary, {attribute} {state}", attribute, dict(whole)))
                cases.append(Refusal(f"{version} structured, {attribute} {state}", attribute, _STRUCTURED, body))
    return cases


REQUIRED = _required()
"""Messages without a required attribute, or with an empty one."""

_EVENT = b'"specversion":"1.0","id":"1","source":"/s","type":"t"'

UNREADABLE = [
    Refusal("no header and no body", "specversion", {}),
    Refusal("a body without attributes", "specversion", {"content-type": "application/json"}, b'{"a": 1}'),
    Refusal("bytes that are nothing", "specversion", {"content-type": "image/png"}, b"\x00\xff\x13garbage"),
    Refusal("structured, not JSON", "", _STRUCTURED, b"{garbage"),
    Refusal("structured, empty", "", _STRUCTURED),
    Refusal("structured, JSON but no object", "", _STRUCTURED, b'["a"]'),
    Refusal("structured, not UTF-8", "", _STRUCTURED, b"{" + _EVENT + b',"subject":"\xff"}'),
    Refusal("structured, data is not Base64", "data_base64", _STRUCTURED, b"{" + _EVENT + b',"data_base64":"*"}'),
    Refusal("binary, source is no URI", "source", _headers(**{"ce-source": "a b"})),
    Refusal("structured, source is no URI", "source", _STRUCTURED, b"{" + _EVENT.replace(b"/s", b"a b") + b"}"),
]  # fmt: skip
"""Messages in which no valid event can be read."""

UNKNOWN_VERSIONS = [
    *(Refusal(f"binary {v}", "specversion", _headers(**{"ce-specversion": v})) for v in ("19.0", "2.0", "9000.1")),
    Refusal("structured 19.0", "specversion", _STRUCTURED, b'{"specversion":"19.0","id":"1","source":"/s","type":"t"}'),
]
"""Events of versions that do not exist."""


# -- what nobody should send, and somebody will -----------------------------------------------------------------------

_HEAD: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
HOSTILE_EVENTS: Mapping[str, Event] = {
    "no attributes": Event({}),
    "no type": Event({"specversion": "1.0", "id": "1", "source": "/s"}, b""),
    "only numbers": Event({"specversion": 1, "id": 2, "source": 3, "type": 4, "time": 5}),
    "only booleans": Event({"specversion": True, "id": False, "source": True, "type": False}),
    "objects": Event(
        {**_HEAD, "specversion": "0.1", "extensions": {"a": {"b": {"c": [None] * 100}}}, "type": {}}, b"{}"
    ),
    "a half of a character": Event({**_HEAD, "subject": "\ud83d"}, b"{}"),
    "line ends and zeros": Event({**_HEAD, "type": "a\r\nb\x00c", "id": "\x00"}),
    "long": Event({**_HEAD, "subject": "x" * 1_000_000}),
    "many": Event({**_HEAD, **{f"a{n}": str(n) for n in range(5000)}}),
    "no JSON": Event({**_HEAD, "datacontenttype": "application/json"}, b"{'a': NaN,}"),
    "no text": Event({**_HEAD, "datacontenttype": "application/json"}, b"\xff\xfe\x00"),
    "deep": Event({**_HEAD, "datacontenttype": "application/json"}, b"[" * 100_000 + b"]" * 100_000),
    "a great number": Event(
        {**_HEAD, "datacontenttype": "application/json"}, b'{"n": 1e999999, "i": 1' + b"0" * 5000 + b"}"
    ),
    "JSON that is empty": Event({**_HEAD, "datacontenttype": "application/json"}, b"", json_data=True),
    "an odd media type": Event({**_HEAD, "datacontenttype": ";;=\u00e9/"}, b"x"),
}
"""Events that no codec would let through, or that only just are events. A filter decides on each; a sink ends each
attempt with one outcome, or raises `Refused`."""

_DEEP = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
_KIND = b"application/cloudevents+json"
HOSTILE_MESSAGES: Mapping[str, Message] = {
    "nothing": Message([]),
    "no body": Message([(b"content-type", _KIND)]),
    "no JSON": Message([(b"content-type", _KIND)], b"{'a': NaN,}"),
    "no text": Message([(b"content-type", _KIND)], b"\xff\xfe\x00"),
    "no object": Message([(b"content-type", _KIND)], b"[[[null]]]"),
    "deep": Message([(b"content-type", _KIND)], _DEEP),
    "a batch of anything": Message(
        [(b"content-type", b"application/cloudevents-batch+json")], b'[1, null, {}, [], "x"]'
    ),
    "a batch that is none": Message([(b"content-type", b"application/cloudevents-batch+json")], b"{}"),
    "attributes that are objects": Message(
        [(b"content-type", _KIND)], b'{"specversion":{"a":1},"id":[],"source":null,"type":1e999}'
    ),
    "data twice": Message(
        [(b"content-type", _KIND)],
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data_base64":"no base64!"}',
    ),
    "an odd media type": Message([(b"content-type", b"\xff;;=")], b"x"),
    "odd header names": Message([(b"ce-", b"x"), (b"ce_", b"x"), (b"\xff", b"\xff"), (b"ce-\xff", b"1")], b"x"),
    "odd header values": Message(
        [(p + n, b"\xff%zz%") for p in (b"ce-", b"ce_") for n in (b"specversion", b"id", b"source", b"type")], b"x"
    ),
}
"""Messages that hold no event, or hardly. A codec reads each, or raises `Refused`."""
