"""Properties of the codec: what it writes it reads; nothing makes it fail in any other way than by refusing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateway_cloudevents.bindings import HTTP, KAFKA
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message, text_of
from tests.budget import examples

ALLOWED = st.characters(exclude_categories=("Cs", "Cc", "Cn"))
TEXT = st.text(ALLOWED, min_size=1, max_size=30)
RESERVED = {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data",
            "schemaurl", "datacontentencoding"}  # fmt: skip
NAME = st.from_regex("[a-z0-9]{1,20}", fullmatch=True).filter(lambda n: n not in RESERVED)
INTEGER = st.integers(-(2**31), 2**31 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(ALLOWED),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(ALLOWED), inner, max_size=4),
    max_leaves=10,
)
JSON_BYTES = st.builds(
    lambda value, ascii, indent: json.dumps(value, ensure_ascii=ascii, indent=indent).encode(),
    JSON,
    st.booleans(),
    st.sampled_from([None, 2]),
)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "subject": TEXT,
    "time": st.datetimes().map(lambda t: t.isoformat() + "Z"),
    "dataschema": st.sampled_from(["http://example.com/schema", "urn:a:b"]),
}
REQUIRED: dict[str, st.SearchStrategy[Any]] = {
    "specversion": st.just("1.0"),
    "id": TEXT,
    "source": st.sampled_from(["/", "/mycontext", "https://example.com/a?b=c#d", "urn:uuid:1", "/straße"]),
    "type": TEXT,
}
# content type and data that fits it; None is no content type
DATA = st.one_of(
    st.tuples(st.sampled_from(["application/json", "text/json; charset=utf-8", "application/x+json"]), JSON_BYTES),
    st.tuples(st.just("text/plain"), st.text().map(lambda t: t.encode(errors="ignore"))),
    st.tuples(st.sampled_from(["image/png", "text/plain; charset=iso-8859-1"]), st.binary()),
    st.tuples(st.none(), st.binary(min_size=1)),
    st.tuples(st.none(), st.none()),
)
ONE = b"application/cloudevents+json"
NAMES = [b"id", b"type", b"source", b"specversion", b"time", b"content-type", b"x", b"eventtype", b"x-a", b"X-aB",
         b"x_a", b"a-b", b"a-b-c", b"a", b"extensions", b"cloudEventsVersion", b"datacontentencoding"]  # fmt: skip
VALUES = [b"1.0", b"0.3", b"0.2", b"0.1", b'"0.1"', b"a/b", ONE, b"5", b'{"a":1}', b"{}", b"[1]", b'"x', b"%22%C3%22",
          b'"%C3\\%A9"', b"base64", b"1e999", b"null"]  # fmt: skip
LOWER = [b"specversion", b"id", b"type", b"source"]
CORES = {b"1.0": LOWER, b"0.3": LOWER, b"0.2": LOWER, b" 0.1": LOWER,
         b"0.1": [b"cloudEventsVersion", b"eventID", b"eventType", b"source"]}  # fmt: skip
VERSION_NAMES = (b"specversion", b"cloudEventsVersion")
MODES = pytest.mark.parametrize("mode", ["binary", "structured"])
BINDINGS = pytest.mark.parametrize("binding", [HTTP, KAFKA], ids=["http", "kafka"])
FEW = examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def events(draw: st.DrawFn, values: st.SearchStrategy[Any] = TEXT) -> Event:
    """Events of 1.0 in an order of attributes of their own."""
    attributes = draw(st.fixed_dictionaries(REQUIRED, optional=OPTIONAL))
    attributes |= draw(st.dictionaries(NAME, values, max_size=4))
    content_type, data = draw(DATA)
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    names = draw(st.permutations(list(attributes)))
    return Event({name: attributes[name] for name in names}, data)


@pytest.mark.slow
@pytest.mark.spec("DP-01", "DP-02", "DP-03", "BR-16")
@BINDINGS
@MODES
@FEW
@given(event=events())
def test_what_is_written_is_read(make_codec: Any, mode: str, binding: Binding, event: Event) -> None:
    codec = make_codec(mode, binding)
    assert codec.decode(codec.encode(event)) == [event]


@pytest.mark.slow
@pytest.mark.spec("BR-16")
@FEW
@given(event=events(values=TEXT | INTEGER | st.booleans() | st.just("")))
def test_types_live_in_json_and_are_text_in_headers(make_codec: Any, event: Event) -> None:
    structured, binary = make_codec("structured"), make_codec("binary")
    [read] = structured.decode(structured.encode(event))
    assert read == event
    assert [type(read.attributes[n]) for n in event.attributes] == [type(v) for v in event.attributes.values()]
    [read] = binary.decode(binary.encode(event))
    assert read.attributes == {n: text_of(v) for n, v in event.attributes.items()}


@pytest.mark.slow
@FEW
@given(event=events(values=TEXT | INTEGER | st.booleans() | st.just("")))
def test_headers_with_text_for_names_are_those_of_the_message(make_codec: Any, event: Event) -> None:
    codec = make_codec("binary", KAFKA)
    assert codec.text_headers(event) == [(name.decode(), value) for name, value in codec.encode(event).headers]


@pytest.mark.slow
@pytest.mark.spec("BR-16")
@FEW
@given(first=events(), events=st.lists(events(), max_size=6), indent=st.sampled_from([None, 1]))
def test_events_do_not_influence_each_other(
    make_codec: Any, first: Event, events: list[Event], indent: int | None
) -> None:
    """A batch is what its events are one by one, whatever came before."""
    structured = make_codec("structured")
    values = [json.loads(structured.encode(e).body) for e in [first, *events, first]]
    texts = [json.dumps(v, indent=indent, separators=(",", ":") if indent is None else None) for v in values]
    alone = [make_codec().decode(_text(t))[0] for t in texts]
    assert structured.decode(_text(f"[{','.join(texts)}]", b"-batch")) == alone


@pytest.mark.slow
@pytest.mark.spec("BR-15")
@BINDINGS
@examples(120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.sampled_from([b"ce-", b"ce_", b"CE-", b""]).flatmap(
            lambda prefix: st.sampled_from(NAMES).map(lambda name: prefix + name)
        )
        | st.binary(max_size=8)
    ),
    values=st.lists(st.sampled_from(VALUES) | st.binary(), min_size=1),
    version=st.sampled_from([None, *CORES]),
    body=st.none() | st.binary(),
)  # fmt: skip
def test_any_message_is_read_or_refused(
    make_codec: Any,
    binding: Binding,
    names: list[bytes],
    values: list[bytes],
    version: bytes | None,
    body: bytes | None,
) -> None:
    codec = make_codec("binary", binding)
    headers = [(name, values[i % len(values)]) for i, name in enumerate(names)]
    if version is not None:  # else hardly one would have all that is required
        headers += [
            (binding.prefix + name, version.strip() if name in VERSION_NAMES else b"1") for name in CORES[version]
        ]
    _read_or_refused(codec, Message(headers, body if binding is KAFKA else body or b""))


@pytest.mark.slow
@pytest.mark.spec("BR-15")
@examples(120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.dictionaries(
        st.sampled_from([*RESERVED, "contenttype", "extensions", "contentType", "data_base64", "x", "É", ""]),
        JSON | st.sampled_from([None, "base64", "QUI=", "application/json", "text/plain", "image/png", "a/b", "urn:a"]),
        max_size=4,
    ),
    dropped=st.sets(st.sampled_from(["id", "type"]), max_size=1),
    batch=st.booleans(),
    version=st.sampled_from(["1.0", "0.3", "0.2", "0.1", "released"]),
)
def test_any_json_is_read_or_refused(
    codec: Any, changes: dict[str, Any], dropped: set[str], batch: bool, version: str
) -> None:
    members = {"specversion": version, "id": "1", "source": "/", "type": "t"} | changes
    if version == "released":
        members = {"cloudEventsVersion": "0.1", "eventID": "1", "source": "/", "eventType": "t"} | changes
    value: Any = {n: v for n, v in members.items() if n not in dropped}
    _read_or_refused(codec, _text(json.dumps([value, value] if batch else value), b"-batch" if batch else b""))


@pytest.mark.slow
@pytest.mark.spec("BR-15")
@examples(120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(event=events(), data=st.data())
def test_damaged_json_is_read_or_refused(make_codec: Any, event: Event, data: st.DataObject) -> None:
    codec = make_codec("structured")
    body = codec.encode(event).body
    at = data.draw(st.integers(0, len(body)))
    cut = data.draw(st.integers(0, 3))
    damaged = body[:at] + data.draw(st.binary(max_size=3)) + body[at + cut :]
    codec.decode(Message([(b"content-type", ONE)], body))
    _read_or_refused(codec, Message([(b"content-type", ONE)], damaged))


@pytest.mark.slow
@pytest.mark.spec("BR-15")
@FEW
@given(
    event=events(),
    name=st.sampled_from(["id", "type", "data", "x"]),
    at=st.integers(0, 20),
    gap=st.sampled_from(["", " ", "\n\t"]),
)
def test_a_second_member_of_a_name_is_always_found(make_codec: Any, event: Event, name: str, at: int, gap: str) -> None:
    codec = make_codec("structured")
    members = [*event.attributes.items(), ("x", "1"), ("data", "2")]
    once = [f"{json.dumps(n)}:{gap}{json.dumps(v)}" for n, v in dict(members).items() if n != "datacontenttype"]
    good = "{" + f",{gap}".join(once) + "}"
    codec.decode(_text(good))
    once.insert(at % (len(once) + 1), f'"{name}":"again"')
    bad = "{" + f",{gap}".join(once) + "}"
    with pytest.raises(Refused, match="more than once"):
        codec.decode(_text(bad))
    codec.decode(_text(good))
    with pytest.raises(Refused, match=r"event 1 of the batch: .*more than once"):
        codec.decode(_text(f"[{good}, {bad}]", b"-batch"))


def _text(body: str, batch: bytes = b"") -> Message:
    return Message([(b"content-type", b"application/cloudevents" + batch + b"+json")], body.encode())


def _read_or_refused(codec: Any, message: Message) -> None:
    try:
        read = codec.decode(message)
    except Refused as e:
        refused = e
    else:
        for event in read:
            assert event.attributes.get("id") or event.attributes.get("eventID")
            if event.attributes.get("specversion") == "1.0":
                defined = {*REQUIRED, *OPTIONAL, "datacontenttype"} & event.attributes.keys()
                assert all(type(event.attributes[name]) is str for name in defined)
            _written_or_refused(codec, event)
        return
    assert refused.status in (400, 413, 415)
    assert refused.detail
    assert refused.rule


def _written_or_refused(codec: Any, event: Event) -> None:
    """What was read can be written, but for maps with keys that no header can have, and data that 0.1 has no place
    for."""
    try:
        codec.encode(event)
    except Refused as e:
        refused = e
    else:
        return
    assert event.attributes.get("specversion") != "1.0"
    assert refused.rule
