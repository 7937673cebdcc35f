"""What is refused of CloudEvents 0.1 and 0.2, what is only warned of, and which versions are known."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from gateway_cloudevents.bindings import KAFKA

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message
from gateway_core.contract.interfaces import Codec

ONE, MANY = b"application/cloudevents+json", b"application/cloudevents-batch+json"
DRAFT: dict[str, Any] = {"specversion": "0.1", "type": "com.example.someevent", "source": "/mycontext", "id": "A234"}
CAMEL: dict[str, Any] = {
    "cloudEventsVersion": "0.1",
    "eventType": "com.example.someevent",
    "source": "/mycontext",
    "eventID": "A234",
}

SPELLINGS = pytest.mark.parametrize("good", [DRAFT, CAMEL], ids=["draft", "released"])


def one(body: str | dict[str, Any], content_type: bytes = ONE) -> Message:
    return Message([(b"content-type", content_type)], (body if isinstance(body, str) else json.dumps(body)).encode())


def binary(headers: dict[str, str], body: bytes = b"") -> Message:
    return Message([(n.encode(), v.encode()) for n, v in headers.items()], body)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no id": ({"id": None}, "id"),
    "no type": ({"type": None}, "type"),
    "no source": ({"source": None}, "source"),
    "empty id": ({"id": ""}, "id"),
    "empty type": ({"type": ""}, "type"),
    "empty source": ({"source": ""}, "source"),
    "id a number": ({"id": 5}, "id"),
    "source no URI-reference": ({"source": "a b"}, "source"),
    "time": ({"time": "2018-04-05 17:31:00"}, "time"),
    "time empty": ({"time": ""}, "time"),
    "contenttype": ({"contenttype": "xml"}, "contenttype"),
    "schemaurl": ({"schemaurl": "http://a b"}, "schemaurl"),
    "integer above 32 bits": ({"x": 2**31}, "x"),
    "integer below 32 bits": ({"x": -(2**31) - 1}, "x"),
    "float": ({"x": 1.5}, "x"),
    "array": ({"x": []}, "x"),
    "control": ({"x": "\x07"}, "x"),
    "name with a dash": ({"a-b": "x"}, "a-b"),
    "name not ASCII": ({"ä": "x"}, "ä"),
    "data_base64": ({"data_base64": "AP8="}, "data_base64"),
}
DRAFT_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "name with a capital": ({"aB": "x"}, "aB"),
    "name begins with a digit": ({"1a": "x"}, "1a"),
    "relative schemaurl": ({"schemaurl": "/a"}, "schemaurl"),
}
CAMEL_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "extensions empty": ({"extensions": {}}, "extensions"),
    "extensions text": ({"extensions": "x"}, "extensions"),
    "eventTypeVersion empty": ({"eventTypeVersion": ""}, "eventTypeVersion"),
}
TO_CAMEL = {
    "id": "eventID",
    "type": "eventType",
    "time": "eventTime",
    "contenttype": "contentType",
    "schemaurl": "schemaURL",
}
LEFT_OUT = {"time", "eventTime", "schemaurl", "schemaURL", "x", "eventTypeVersion", "word"}
"""Optional attributes: an invalid value costs only themselves."""


def _refused(codec: Codec, good: dict[str, Any], changes: dict[str, Any], attribute: str) -> None:
    for message in (one({**good, **changes}), one(json.dumps([{**good, **changes}]), MANY)):
        codec.decode(one(good))
        if attribute in LEFT_OUT:
            [event] = codec.decode(message)
            assert attribute not in event.attributes
            continue
        with pytest.raises(Refused) as refused:
            codec.decode(message)
        assert (refused.value.status, refused.value.attribute) == (400, attribute)
        assert refused.value.rule


@pytest.mark.spec("CE1-02", "CE1-03", "CE1-04", "CE1-05", "CE1-06", "CE1-07", "BR-15", "SAFE-105")
@pytest.mark.parametrize("version", ["0.1", "0.2"])
@pytest.mark.parametrize(("changes", "attribute"), (FAULTS | DRAFT_FAULTS).values(), ids=(FAULTS | DRAFT_FAULTS).keys())
def test_faults_are_refused(codec: Codec, version: str, changes: dict[str, Any], attribute: str) -> None:
    _refused(codec, {**DRAFT, "specversion": version}, changes, attribute)


@pytest.mark.spec("CE1-03", "CE1-04", "CE1-06", "CE1-07", "BR-15")
@pytest.mark.parametrize(("changes", "attribute"), (FAULTS | CAMEL_FAULTS).values(), ids=(FAULTS | CAMEL_FAULTS).keys())
def test_faults_are_refused_in_released_names(codec: Codec, changes: dict[str, Any], attribute: str) -> None:
    _refused(codec, CAMEL, {TO_CAMEL.get(n, n): v for n, v in changes.items()}, TO_CAMEL.get(attribute, attribute))


HEADER_FAULTS: dict[str, tuple[dict[str, str], str]] = {
    "id twice": ({"CE-EventID": "B"}, "eventID"),
    "extension twice": ({"ce-x-a": "1", "CE-X-A": "2"}, "x-a"),
    "extensions and one of them": ({"ce-extensions": '{"a":1}', "ce-x-a": "1"}, "a"),
    "extensions no object": ({"ce-extensions": "5"}, "extensions"),
    "time": ({"ce-eventtime": '"now"'}, "eventTime"),
    "empty": ({"ce-eventtypeversion": '""'}, "eventTypeVersion"),
    "control": ({"ce-word": '"a\\u0007"'}, "word"),
    "half a character": ({"ce-x-a": '"%C3\\%A9"'}, "extensions"),
    "name with a dash": ({"ce-a-b": "1"}, "a-b"),
    "version": ({"ce-cloudeventsversion": "0.4"}, "cloudEventsVersion"),
    "version in quotes": ({"ce-cloudeventsversion": '"0.4"'}, "cloudEventsVersion"),
}


@pytest.mark.spec("CE1-11", "CE1-03", "CE1-04", "BR-15")
@pytest.mark.parametrize(("changes", "attribute"), HEADER_FAULTS.values(), ids=HEADER_FAULTS.keys())
def test_faults_in_headers_are_refused(codec: Codec, changes: dict[str, str], attribute: str) -> None:
    headers = {f"ce-{n.lower()}": v for n, v in CAMEL.items()}
    if attribute in LEFT_OUT:
        [event] = codec.decode(binary({**headers, **changes}))
        assert attribute not in event.attributes
        return
    with pytest.raises(Refused) as refused:
        codec.decode(binary({**headers, **changes}))
    assert (refused.value.status, refused.value.attribute.lower()) == (400, attribute.lower())
    assert refused.value.rule


@pytest.mark.spec("BR-15")
@pytest.mark.parametrize(
    ("changes", "attribute"),
    [({"ce-a": "1", "ce-a-b": "2"}, "b"), ({"ce-id-x": "1"}, "id-x"), ({"ce-n": "5", "ce-A": "1", "ce-a": "2"}, "a")],
)
def test_maps_in_headers_do_not_hide_faults(codec: Codec, changes: dict[str, str], attribute: str) -> None:
    headers = {f"ce-{n}": v for n, v in DRAFT.items()}
    for version in ("0.1", "0.2", "0.3"):
        with pytest.raises(Refused) as refused:
            codec.decode(binary({**headers, "ce-specversion": version, **changes}))
        assert refused.value.attribute == attribute


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "future": ({"specversion": "2.0"}, r"unknown specversion '2\.0'; known: 1\.0, 0\.3, 0\.2, 0\.1"),
    "patch level": ({"specversion": "1.0.2"}, "unknown specversion '1\\.0\\.2'; known: "),
    "released names": ({"cloudEventsVersion": "0.2"}, r"unknown cloudEventsVersion '0\.2'; known: 0\.1"),
    "none": ({}, "required attribute specversion is missing"),
}


@pytest.mark.spec("BR-12", "BR-15")
@pytest.mark.parametrize(("version", "says"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_unknown_versions_are_named_and_those_known(codec: Codec, version: dict[str, Any], says: str) -> None:
    names = {"id": "1", "source": "/", "type": "t", "eventID": "1", "eventType": "t", **version}
    for message in (one(names), one(json.dumps([names]), MANY), binary({f"ce-{n}": v for n, v in names.items()})):
        with pytest.raises(Refused, match=says) as refused:
            codec.decode(message)
        assert refused.value.status == 400


@pytest.mark.spec("BR-12")
@pytest.mark.parametrize("word", ['"1.0"', '"0.3"'])
def test_only_0_1_and_0_2_have_quotes_around_their_version(make_codec: Any, word: str) -> None:
    headers = {f"ce_{n}": v for n, v in DRAFT.items()}
    with pytest.raises(Refused, match="unknown specversion"):
        make_codec("binary", KAFKA).decode(binary({**headers, "ce_specversion": word}))


@pytest.mark.spec("CE1-02")
def test_a_long_name_is_warned_of_once_and_taken(make_codec: Any, caplog: pytest.LogCaptureFixture) -> None:
    name = "averylongnamethatnobodyshallhave"
    with caplog.at_level(logging.WARNING, "tidegate.cloudevents"):
        for other in ("a", "b", "b"):
            [event] = make_codec().decode(one({**DRAFT, name: "x", "twentycharactersname": "y", other: "z"}))
            assert event.attributes[name] == "x"
    assert [record.getMessage() for record in caplog.records if name in record.getMessage()] == [
        f"attribute name '{name}' has 32 characters; CloudEvents recommends at most 20"
    ]
    assert not any("twentycharactersname" in record.getMessage() for record in caplog.records)


GOOD: dict[str, dict[str, Any]] = {
    "time with a zone": {"time": "2018-04-05T17:31:00.123+01:00"},
    "schema": {"schemaurl": "urn:a:b"},
    "media type": {"contenttype": 'text/xml; charset="utf-8"'},
    "relative source": {"source": "../a?b#c"},
    "integers": {"x": 2**31 - 1, "y": -(2**31)},
    "map": {"x": {"a": {"b": [1, None, "c", 1.5]}}},
    "digits in a name": {"a1b2": "x"},
    "null is none": {"x": None},
}


@pytest.mark.spec("CE1-03", "CE1-04", "CE1-05", "CE1-06", "CE1-07")
@SPELLINGS
@pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD.keys())
def test_good_values_are_kept(make_codec: Any, good: dict[str, Any], changes: dict[str, Any]) -> None:
    structured = make_codec("structured")
    names = TO_CAMEL if good is CAMEL else {}
    members = {**good, **{names.get(n, n): v for n, v in changes.items()}}
    kept = {n: v for n, v in members.items() if v is not None}
    [event] = structured.decode(one(members))
    assert event.attributes == kept
    assert json.loads(structured.encode(event).body) == kept


@pytest.mark.spec("CE1-09")
@SPELLINGS
@pytest.mark.parametrize("data", ["1E400", '{"a":1,"a":2}', "[" * 500 + "]" * 500, '  "\\u00e9\\/"  '])
def test_attributes_are_read_without_decoding_data(codec: Codec, good: dict[str, Any], data: str) -> None:
    """This data no parser would give back as it is: it stays the text that it is."""
    for _ in range(2):
        [event] = codec.decode(one(f'{json.dumps(good)[:-1]}, "data":{data}}}'))
        assert (event.attributes, event.data) == (good, data.strip().encode())
