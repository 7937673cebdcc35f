"""Events as JSON lines: what is written is read back, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateway_cloudevents.bindings import HTTP
from gateway_cloudevents.codec import _Codec
from gateway_cloudevents.event_json import OWN, dump, line, load, structured
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_core.contract.event import Event, Message
from tests.budget import examples

NAMES = st.one_of(
    st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True), st.sampled_from(sorted(OWN | {"data", "data_base64"}))
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(TEXT, st.booleans(), st.integers(-(2**70), 2**70), st.dictionaries(TEXT, TEXT, max_size=3))
TYPES = st.sampled_from(
    [
        None,
        "application/json",
        "text/json; charset=utf-8",
        "application/vnd.a+json",
        "text/plain",
        "image/png",
        "a/b+xml",
        "",
    ]
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=5,
)
DATA = st.one_of(
    st.none(),
    st.binary(max_size=30),
    TEXT.map(str.encode),
    JSON.map(lambda v: json.dumps(v).encode()),
    JSON.map(lambda v: json.dumps(v, indent=1, ensure_ascii=False).encode()),
    st.sampled_from([b"", b" 1", b"1\n", b"NaN", b'"\xff"', b'{"a":1}', b"[" * 5000 + b"]" * 5000, b'"\\ud800"']),
)


def exactly(event: Event) -> tuple[Any, ...]:
    """Types too: True is not 1."""
    return repr(event.attributes), event.data, event.json_data, event.key


@pytest.mark.slow
@examples(300)
@given(
    st.dictionaries(NAMES, VALUES, max_size=4), TYPES, DATA, st.booleans(), st.one_of(st.none(), st.binary(max_size=9))
)
@example({}, "text/plain", b'"a JSON string"', True, None)
@example({}, None, b'{"a": 1}', False, None)
def test_any_event_is_read_back_from_its_line(
    attributes: dict[str, Any], media_type: str | None, data: bytes | None, json_data: bool, key: bytes | None
) -> None:
    if media_type is not None:
        attributes = {**attributes, "datacontenttype": media_type}
    event = Event(attributes, data, json_data and data is not None, key)
    line = dump(event)
    assert b"\n" not in line
    again = load(line)
    assert {k: repr(v) for k, v in again.attributes.items()} == {k: repr(v) for k, v in attributes.items()}
    assert exactly(again)[1:] == exactly(event)[1:]


@examples(100)
@given(TYPES, DATA)
@example("application/json", b" 1")
@example("application/json", b"1\n")
@example("text/plain", b"\xff")
def test_structured_keeps_every_byte_and_has_no_members_of_our_own(media_type: str | None, data: bytes | None) -> None:
    attributes = {"id": "1", "n": 7, **({} if media_type is None else {"datacontenttype": media_type})}
    text = structured(Event(attributes, data, key=b"k"))
    assert not OWN & json.loads(text).keys()
    assert load(text) == Event(attributes, data)


@pytest.mark.parametrize(
    ("event", "member", "value"),
    [
        (Event({"datacontenttype": "application/json"}, b'{"a": 1.0}'), "data", {"a": 1.0}),
        (Event({}, b'{"a": 1}', json_data=True), "data", {"a": 1}),
        (Event({"datacontenttype": "text/plain"}, "Grüße".encode()), "data", "Grüße"),
        (Event({"datacontenttype": "image/png"}, b"\x89PNG"), "data_base64", "iVBORw=="),
        (Event({"datacontenttype": "application/json"}, b"{broken"), "data_base64", "e2Jyb2tlbg=="),
        (Event({}, b"bytes"), "data_base64", "Ynl0ZXM="),
    ],
)
def test_data_is_readable_where_it_can_be(event: Event, member: str, value: Any) -> None:
    assert json.loads(dump(event))[member] == value


def test_a_json_null_stands_for_no_attribute() -> None:
    assert load(b'{"id": "1", "subject": null}') == Event({"id": "1"})


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'"x"', b'{"data_base64": "!"}', b'{"data_base64": 1}', b"\xff"])
def test_what_is_no_event_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        load(text)


def test_an_attribute_that_no_json_text_can_hold_is_a_value_error() -> None:
    for write in (dump, line):
        with pytest.raises(ValueError):
            write(Event({"id": "\ud800"}))


GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
AS_JSON = {**GOOD, "datacontenttype": "application/json"}
LINES: dict[str, tuple[Event, dict[str, Any], bytes | None]] = {
    "white space around JSON": (Event(AS_JSON, b' {"a": 1} \n'), {"data": {"a": 1}}, b'{"a": 1}'),
    "line feeds in JSON": (Event(AS_JSON, b'{\n"a":\r\n"b\\n"}'), {"data": {"a": "b\n"}}, b'{ "a":  "b\\n"}'),
    "JSON without a type": (Event(GOOD, b"[1.10]", json_data=True), {"data": [1.1]}, b"[1.10]"),
    "a number out of range": (Event(AS_JSON, b"1e400"), {"data": float("inf")}, b"1e400"),
    "half a surrogate pair": (Event(AS_JSON, b'"\\ud800"'), {"data_base64": "Ilx1ZDgwMCI="}, b'"\\ud800"'),
    "no JSON": (Event(AS_JSON, b"{\n"), {"data_base64": "ewo="}, b"{\n"),
    "text": (Event({**GOOD, "datacontenttype": "text/plain"}, b"a\nb"), {"data": "a\nb"}, b"a\nb"),
    "latin-1": (
        *(Event({**GOOD, "datacontenttype": "text/plain; charset=iso-8859-1"}, b"\xc3\xa9"), {"data_base64": "w6k="}),
        b"\xc3\xa9",
    ),
    "bytes of 0.3": (
        *(Event({**GOOD, "specversion": "0.3"}, b"\xff"), {"data": "/w==", "datacontentencoding": "base64"}, b"\xff"),
    ),
    "bytes of 0.2": (
        *(Event({**GOOD, "specversion": "0.2", "contenttype": "image/png"}, b"\xff"), {"data": "/w=="}, b"\xff"),
    ),
    "a key": (Event(GOOD, key=b"k"), {"partitionkey": "k"}, None),
    "a key that is there": (Event({**GOOD, "partitionkey": "k"}, key=b"k"), {"partitionkey": "k"}, None),
    "another key": (Event({**GOOD, "partitionkey": "x"}, key=b"k"), {"partitionkey": "x", "keybase64": "aw=="}, None),
    "a key that is no text": (Event(GOOD, key=b"\xff"), {"keybase64": "/w=="}, None),
}


@pytest.mark.spec("SAFE-109")
@pytest.mark.parametrize(("event", "members", "data"), LINES.values(), ids=LINES.keys())
def test_a_line_is_a_cloudevent_that_an_ingress_takes_back(
    event: Event, members: dict[str, Any], data: bytes | None
) -> None:
    text = line(event)
    assert b"\n" not in text
    assert json.loads(text) == {**event.attributes, **members}
    [taken] = _Codec(HTTP).decode(Message([(b"content-type", b"application/cloudevents+json")], text))
    attributes = {**event.attributes, **members}
    for name in ("data", "data_base64", "datacontentencoding"):
        attributes.pop(name, None)
    assert (taken.attributes, taken.data) == (attributes, data)
    again = load(text)
    assert again.data == taken.data
    assert again.key == (event.key if "keybase64" in members else None)


@pytest.mark.slow
@pytest.mark.spec("SAFE-109")
@examples(200)
@given(TYPES, DATA, st.booleans(), st.one_of(st.none(), st.binary(max_size=9)), TEXT)
def test_every_line_is_taken_back(
    media_type: str | None, data: bytes | None, json_data: bool, key: bytes | None, subject: str
) -> None:
    codec = _Codec(HTTP)
    attributes = {**GOOD, **({"datacontenttype": media_type} if media_type else {}), "x": subject.encode().hex()}
    event = Event(attributes, data, json_data and not media_type, key)
    if event.json_data and (data is None or not data.strip()):
        event.json_data = False
    text = line(event)
    assert b"\n" not in text
    [taken] = codec.decode(Message([(b"content-type", b"application/cloudevents+json")], text))
    assert taken.attributes.items() >= attributes.items()
    assert load(text).data == taken.data
    if data is not None and taken.data != data:  # only white space between the tokens of JSON may differ
        assert taken.data is not None
        assert json.loads(taken.data) == json.loads(data)


@pytest.mark.spec("SAFE-109")
def test_lines_of_earlier_versions_are_read_as_they_were() -> None:
    old = json.dumps(GOOD).encode()[:-1] + b',"data_base64":"IDEK","json_data":true,"key_base64":"aw=="}'
    assert exactly(load(old)) == exactly(Event(GOOD, b" 1\n", True, b"k"))
