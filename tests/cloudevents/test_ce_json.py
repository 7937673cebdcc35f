"""Structured and batch mode: CloudEvents 1.0.2 json-format.md and HTTP binding sections 3.2 and 3.3."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from gateway_cloudevents.bindings import KAFKA
from gateway_cloudevents.memory import Memory

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

GOOD = {"specversion": "1.0", "id": "A234", "source": "/mycontext", "type": "com.example.someevent"}
ONE = "application/cloudevents+json"
MANY = "application/cloudevents-batch+json"


def message(body: bytes | str, content_type: str = ONE) -> Message:
    return Message(
        [(b"host", b"x"), (b"content-type", content_type.encode())], body.encode() if isinstance(body, str) else body
    )


def with_members(text: str) -> str:
    """A good event and these members as JSON text."""
    return json.dumps(GOOD)[:-1] + f", {text}}}"


DATA: dict[str, tuple[str, bytes | None]] = {
    "none": ('"x": "y"', None),
    "object": ('"data": { "b" : [1, 2.50, 1e2 ] }', b'{ "b" : [1, 2.50, 1e2 ] }'),
    "string": ('"data": "\\u00e9\\n"', b'"\\u00e9\\n"'),
    "null": ('"data": null', b"null"),
    "number": ('"data": 1E400', b"1E400"),
    "false": ('"data": false', b"false"),
    "json type": ('"datacontenttype": "text/json; a=b", "data": [ ]', b"[ ]"),
    "json suffix": ('"datacontenttype": "image/x+JSON", "data": "s"', b'"s"'),
    "text": ('"datacontenttype": "text/plain", "data": "\\u00e9\\n\\"\\ud83d\\ude00"', 'é\n"\U0001f600'.encode()),
    "xml": ('"datacontenttype": "application/xml", "data": "<much wow=\\"xml\\"/>"', b'<much wow="xml"/>'),
    "text null": ('"datacontenttype": "text/plain", "data": null', None),
    "base64": ('"datacontenttype": "image/png", "data_base64": "AP8="', b"\x00\xff"),
    "base64 without type": ('"data_base64": "\\u0041P8="', b"\x00\xff"),
    "base64 empty": ('"data_base64": ""', b""),
    "base64 null": ('"data_base64": null, "data": 1', b"1"),
    "inner duplicates": ('"data": {"a":1,"a":2}', b'{"a":1,"a":2}'),
}


@pytest.mark.spec("DP-02", "BR-16")
@pytest.mark.parametrize(("members", "data"), DATA.values(), ids=DATA.keys())
def test_data_is_kept_byte_by_byte(codec: Codec, make_codec: Any, members: str, data: bytes | None) -> None:
    [event] = codec.decode(message(with_members(members)))
    assert event.data == data
    assert event.attributes.items() >= GOOD.items()
    assert "data" not in event.attributes
    assert "data_base64" not in event.attributes
    structured = make_codec("structured")
    assert structured.decode(structured.encode(event)) == [event]


@pytest.mark.spec("DP-02", "BR-16")
def test_attribute_types_are_kept(codec: Codec) -> None:
    text = with_members('"a": 5, "b": true, "c": -2147483648, "d": "5", "e": null, "f": false, "g": ""')
    for _ in range(2):
        [event] = codec.decode(message(text))
        extensions = {n: v for n, v in event.attributes.items() if n not in GOOD}
        assert extensions == {"a": 5, "b": True, "c": -(2**31), "d": "5", "f": False, "g": ""}
        assert [type(v) for v in extensions.values()] == [int, bool, int, str, bool, str]


CONTENT_TYPES = {
    "upper case": "APPLICATION/CloudEvents+JSON",
    "charset": "application/cloudevents+json; charset=UTF-8",
    "charset quoted": 'application/cloudevents+json ;Charset="utf-8"',
    "other parameter": "application/cloudevents+json; a=b",
}


@pytest.mark.spec("DP-02")
@pytest.mark.parametrize("content_type", CONTENT_TYPES.values(), ids=CONTENT_TYPES.keys())
def test_structured_mode_is_recognised(codec: Codec, content_type: str) -> None:
    assert codec.decode(message(json.dumps(GOOD), content_type)) == [Event(GOOD)]


@pytest.mark.spec("BR-15")
@pytest.mark.parametrize(
    "content_type",
    ["application/cloudevents+avro", "application/cloudevents", "application/cloudevents+json; charset=utf-16",
     "application/cloudevents-batch+protobuf", "application/cloudevents+jsonx"],
)  # fmt: skip
def test_other_formats_are_415(codec: Codec, content_type: str) -> None:
    with pytest.raises(Refused) as refused:
        codec.decode(message(json.dumps(GOOD), content_type))
    assert refused.value.status == 415


BODIES: dict[str, tuple[bytes | str, str]] = {
    "empty": ("", ""),
    "not JSON": ("{", ""),
    "trailing text": (json.dumps(GOOD) + "x", ""),
    "array": (f"[{json.dumps(GOOD)}]", ""),
    "string": ('"x"', ""),
    "not UTF-8": (with_members('"a": "').encode() + b'\xff"}', ""),
    "not UTF-8 in data": (with_members('"data": "').encode()[:-1] + b'\xff"}', ""),
    "UTF-16": (json.dumps(GOOD).encode("utf-16"), ""),
    "NaN": (with_members('"data": NaN'), ""),
    "Infinity": (with_members('"data": [-Infinity]'), ""),
    "leading zero": (with_members('"data": 01'), ""),
    "plus": (with_members('"data": +1'), ""),
    "underscore": (with_members('"data": 1_0'), ""),
    "comment": (with_members('"data": 1 /* x */'), ""),
    "deep data": (with_members('"data": ' + "[" * 1_000_000 + "]" * 1_000_000), ""),
    "deep attribute": (with_members('"x": ' + '{"a":' * 100_000 + "1" + "}" * 100_000), ""),
    "lone surrogate": (with_members('"x": "\\ud800"'), "x"),
    "no id": (json.dumps({**GOOD, "id": None}), "id"),
    "empty type": (json.dumps({**GOOD, "type": ""}), "type"),
    "id a number": (json.dumps({**GOOD, "id": 5}), "id"),
    "specversion a number": (json.dumps({**GOOD, "specversion": 1.0}), "specversion"),
    "unknown version": (json.dumps({**GOOD, "specversion": "2.0"}), "specversion"),
    "no version": ('{"id":"1"}', "specversion"),
    "null version": ('{"specversion":null}', "specversion"),
    "bad time": (with_members('"time": "now"'), "time"),
    "time a number": (with_members('"time": 5'), "time"),
    "float": (with_members('"x": 1.5'), "x"),
    "whole float": (with_members('"x": 1.0'), "x"),
    "too large": (with_members('"x": 2147483648'), "x"),
    "far too large": (with_members('"x": -' + "9" * 400), "x"),
    "object": (with_members('"x": {}'), "x"),
    "array value": (with_members('"x": ["a"]'), "x"),
    "control": (with_members('"x": "a\\u0007"'), "x"),
    "delete": (with_members('"x": "a\x7f"'), "x"),
    "C1 control": (with_members('"x": "a\x85"'), "x"),
    "upper-case name": (with_members('"X": "a"'), "X"),
    "dash in name": (with_members('"a-b": "a"'), "a-b"),
    "empty name": (with_members('"": "a"'), ""),
    "data twice": (with_members('"data": 1, "data": 2'), "data"),
    "id twice": (with_members('"id": "B"'), "id"),
    "id twice, escaped": (with_members('"\\u0069d": "B"'), "id"),
    "null twice": (with_members('"x": null, "x": null'), "x"),
    "both data": (with_members('"data": 1, "data_base64": "AP8="'), "data_base64"),
    "base64 no base64": (with_members('"data_base64": "AP8"'), "data_base64"),
    "base64 a number": (with_members('"data_base64": 5'), "data_base64"),
    "text not a string": (with_members('"datacontenttype": "text/plain", "data": {}'), "data"),
}


LAYOUTS = [
    json.dumps(GOOD),
    with_members('"x": "a"'),
    with_members('"data": 1'),
    with_members('"time": "2018-04-05T17:31:00Z"'),
    with_members('"datacontenttype": "text/plain", "data": "a"'),
]


NAMES = ("upper-case name", "dash in name", "empty name", "id twice", "id twice, escaped", "null twice", "data twice")
LEFT_OUT = {name: body for name, body in BODIES.items() if body[1] in ("x", "time") and name not in NAMES}
REFUSED = {name: body for name, body in BODIES.items() if name not in LEFT_OUT and name != "deep attribute"}


@pytest.mark.spec("SAFE-105")
@pytest.mark.parametrize(("body", "attribute"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_an_invalid_optional_value_costs_no_event(make_codec: Any, body: str, attribute: str) -> None:
    """Also right after a good event with the same members, and in a batch."""
    codec = make_codec()
    for before in (None, *LAYOUTS):
        if before is not None:
            codec.decode(message(before))
        assert codec.decode(message(body)) == [Event(GOOD)]
        good = json.dumps(GOOD)
        assert codec.decode(message(f"[{good},{body}]", MANY)) == [Event(GOOD), Event(GOOD)]


@pytest.mark.spec("BR-15")
@pytest.mark.parametrize("spacing", ["as it is", "compact", "pretty"])
@pytest.mark.parametrize(("body", "attribute"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_json_is_refused(make_codec: Any, body: bytes | str, attribute: str, spacing: str) -> None:
    """Also right after a good event with the same members, which is read in another way, and however it is spaced."""
    if isinstance(body, str) and spacing != "as it is":
        body = body.replace(", ", "," if spacing == "compact" else ",\n  ")
        body = body.replace(": ", ":" if spacing == "compact" else "  :\t")
    codec = make_codec()
    for before in (None, *LAYOUTS):
        if before is not None:
            codec.decode(message(before))
        with pytest.raises(Refused) as refused:
            codec.decode(message(body))
        assert (refused.value.status, refused.value.attribute) == (400, attribute)
        assert refused.value.rule.startswith("CloudEvents ")
        if body and before is not None:
            good, bad = before.encode(), body.encode() if isinstance(body, str) else body
            with pytest.raises(Refused) as refused:
                codec.decode(message(b"[%b,%b]" % (good, bad), MANY))
            assert (refused.value.status, refused.value.attribute) == (400, attribute)


@pytest.mark.spec("DP-02", "BR-16")
def test_spacing_does_not_matter(make_codec: Any) -> None:
    codec = make_codec()
    event = {**GOOD, "subject": "a b", "data": {"c d": " e "}}
    for text in (
        json.dumps(event),
        json.dumps(event, indent=4),
        json.dumps(event, separators=(",", ":")),
        f" {event} ",
    ):
        [read] = codec.decode(message(text.replace("'", '"')))
        assert read.attributes == {**GOOD, "subject": "a b"}
        assert json.loads(read.data or b"") == {"c d": " e "}


@pytest.mark.spec("DP-02")
def test_a_batch_is_read_in_order(codec: Codec) -> None:
    events = [{**GOOD, "id": str(i), **({"n": i} if i % 3 else {"data": i})} for i in range(100)]
    read = codec.decode(message(json.dumps(events), MANY))
    assert [e.attributes["id"] for e in read] == [str(i) for i in range(100)]
    assert [e.data for e in read if e.data is not None] == [str(i).encode() for i in range(0, 100, 3)]


@pytest.mark.slow
def test_too_many_events_are_413_also_where_all_are_alike(make_codec: Any) -> None:
    codec, event = make_codec(), json.dumps(GOOD)
    for count, taken in ((10_000, True), (10_000, True), (10_001, False)):
        body = message(f"[{','.join([event] * count)}]", MANY)
        if taken:
            assert len(codec.decode(body)) == count
        else:
            with pytest.raises(Refused, match="the maximum is 10000"):
                codec.decode(body)


def test_an_empty_batch_is_no_events(codec: Codec) -> None:
    assert codec.decode(message("[]", MANY)) == []


@pytest.mark.spec("BR-15")
@pytest.mark.parametrize(
    ("body", "says", "status"),
    [
        (json.dumps([GOOD, {**GOOD, "id": ""}, {}]), "event 1 of the batch: required attribute id is empty", 400),
        ("[[]]", "event 0 of the batch: ", 400),
        ("[null]", "event 0 of the batch: ", 400),
        (json.dumps(GOOD), "not a JSON array", 400),
        ("[" + json.dumps(GOOD), "not a JSON array", 400),
        ("[" * 100_000, "not a JSON array", 400),
        ("[" + "{}," * 10_000 + "{}]", "the maximum is 10000", 413),
    ],
    ids=["one bad", "array", "null", "one event", "cut", "deep", "too many"],
)
def test_a_batch_is_all_or_nothing(codec: Codec, body: str, says: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        codec.decode(message(body, MANY))
    assert says in refused.value.detail
    assert refused.value.status == status


WRITTEN: dict[str, tuple[dict[str, Any], bytes | None, bool, dict[str, Any]]] = {
    "json": ({"datacontenttype": "application/json"}, b'{"a":1}', False, {"data": {"a": 1}}),
    "json unsaid": ({}, b'"x"', True, {"data": "x"}),
    "json invalid": ({"datacontenttype": "application/json"}, b"{", False, {"data_base64": "ew=="}),
    "json not UTF-8": ({"datacontenttype": "application/json"}, b'"\xff"', False, {"data_base64": "Iv8i"}),
    "text": ({"datacontenttype": "text/plain"}, "é".encode(), False, {"data": "é"}),
    "text latin-1": ({"datacontenttype": "text/plain; charset=iso-8859-1"}, b"\xe9", False, {"data_base64": "6Q=="}),
    "text not UTF-8": ({"datacontenttype": "text/plain"}, b"\xe9", False, {"data_base64": "6Q=="}),
    "svg": ({"datacontenttype": "image/svg+xml"}, b"<svg/>", False, {"data": "<svg/>"}),
    "bytes": ({"datacontenttype": "application/octet-stream"}, b"abc", False, {"data_base64": "YWJj"}),
    "no type": ({}, b"abc", False, {"data_base64": "YWJj"}),
    "empty": ({}, b"", False, {"data_base64": ""}),
    "none": ({"datacontenttype": "text/plain"}, None, False, {}),
}


@pytest.mark.spec("DP-03", "BR-16")
@pytest.mark.parametrize(("attributes", "data", "is_json", "members"), WRITTEN.values(), ids=WRITTEN.keys())
def test_structured_mode_is_written(
    make_codec: Any, attributes: dict[str, Any], data: bytes | None, is_json: bool, members: dict[str, Any]
) -> None:
    structured = make_codec("structured")
    event = Event({**GOOD, "n": 5, "b": True, **attributes}, data, is_json)
    written = structured.encode(event)
    assert written.headers == [(b"content-type", b"application/cloudevents+json; charset=utf-8")]
    assert json.loads(written.body) == {**event.attributes, **members}
    assert structured.decode(written) == [event]


@pytest.mark.spec("DP-03")
def test_the_mode_is_a_setting(make_codec: Any) -> None:
    event = Event({**GOOD, "datacontenttype": "application/json"}, b"{}")
    assert (b"ce-id", b"A234") in make_codec("binary").encode(event).headers
    assert make_codec("structured").encode(event).headers[0][1].startswith(b"application/cloudevents+json")


@pytest.mark.spec("BR-10", "BR-11", "BR-16")
@pytest.mark.parametrize(
    ("members", "data"),
    [
        ('"datacontenttype": "application/json", "data": {"a": 1}', b'{"a": 1}'),
        ('"datacontenttype": "text/xml", "data": "<a/>"', b"<a/>"),
        ('"datacontentencoding": "base64", "datacontenttype": "image/png", "data": "AP8="', b"\x00\xff"),
        ('"schemaurl": "/relative", "map": {"a": [1, 2.5, null]}', None),
    ],
    ids=["json", "text", "base64", "map"],
)
def test_0_3_goes_in_and_out_in_its_own_words(make_codec: Any, members: str, data: bytes | None) -> None:
    structured = make_codec("structured")
    text = with_members(members).replace('"1.0"', '"0.3"')
    [event] = structured.decode(message(text))
    assert (event.attributes["specversion"], event.data) == ("0.3", data)
    assert "datacontentencoding" not in event.attributes
    assert json.loads(structured.encode(event).body) == json.loads(text)


def test_0_3_binary_data_is_said_to_be_base64(make_codec: Any) -> None:
    """0.3 spec.md, datacontentencoding: it must be there where a string holds binary data."""
    event = Event({**GOOD, "specversion": "0.3", "datacontenttype": "image/png"}, b"\x00\xff")
    written = json.loads(make_codec("structured").encode(event).body)
    assert (written["data"], written["datacontentencoding"]) == ("AP8=", "base64")


def test_kafka_takes_no_batches_and_forwards_unknown_formats(make_codec: Any) -> None:
    kafka = make_codec("binary", KAFKA)
    headers = [(f"ce_{n}".encode(), v.encode()) for n, v in GOOD.items()]
    [event] = kafka.decode(Message([*headers, (b"content-type", MANY.encode())], b"[]", b"key"))
    assert (event.data, event.attributes["datacontenttype"], event.key) == (b"[]", MANY, b"key")
    with pytest.raises(Refused):
        kafka.decode(Message([(b"content-type", ONE.encode())], None))


def test_kafka_names_count_as_written_and_a_null_value_is_no_data(make_codec: Any) -> None:
    kafka = make_codec("binary", KAFKA)
    headers = [(f"ce_{n}".encode(), v.encode()) for n, v in GOOD.items()]
    extra = [(b"CE_ID", b"other"), (b"CE_Ext", b'50% "x"'), (b"ce_datacontenttype", b"a/b"), (b"Content-Type", b"c/d")]
    [event] = kafka.decode(Message([*extra, *headers], None))
    assert event.attributes == {**GOOD, "ext": '50% "x"', "datacontenttype": "c/d"}
    assert event.data is None
    written = kafka.encode(event)
    assert (b"ce_ext", b'50% "x"') in written.headers
    assert written.body is None
    assert kafka.decode(written) == [event]


@pytest.mark.slow
def test_what_a_codec_remembers_is_bounded_and_changes_nothing(make_codec: Any) -> None:
    """Senders may use ever new names and values, also words that Python keeps for itself."""
    codec = make_codec("structured")
    names = ["self", "cls", "class", "none", "1a", "data1", "x" * 600, *(f"n{i}" for i in range(5000))]
    for name in names:
        event = Event({**GOOD, "source": f"/{name}", name: "v"}, b"1", json_data=True)
        assert codec.decode(codec.encode(event)) == [event]
    gc.unfreeze()  # tests/conftest.py freezes what collection made, and then it is not among the objects
    sizes = [len(m) for m in gc.get_objects() if isinstance(m, Memory)]
    assert sizes
    assert max(sizes) <= 4096
