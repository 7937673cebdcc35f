"""The codec for Kafka's records: CloudEvents Kafka binding 1.0.3, sections 3.2 and 3.3."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from gateway_cloudevents.bindings import HTTP, KAFKA
from pydantic import ValidationError

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message

GOOD = {"specversion": "1.0", "id": "A234", "source": "/mycontext", "type": "com.example.someevent"}
HEADERS = [(f"ce_{n}".encode(), v.encode()) for n, v in GOOD.items()]
ONE = "application/cloudevents+json"
MANY = "application/cloudevents-batch+json"
BOTH = pytest.mark.parametrize("binding", [HTTP, KAFKA], ids=["http", "kafka"])


def record(content_type: str, value: bytes | None, *headers: tuple[bytes, bytes]) -> Message:
    return Message([*headers, (b"content-type", content_type.encode())], value, b"key")


@pytest.mark.parametrize("content_type", [ONE, "Application/CloudEvents+JSON; charset=UTF-8", f"{ONE};charset=utf-8"])
def test_the_content_type_tells_structured_mode_in_any_case(make_codec: Any, content_type: str) -> None:
    [event] = make_codec("binary", KAFKA).decode(record(content_type, json.dumps({**GOOD, "data": 1}).encode()))
    assert (event.attributes, event.data, event.key) == (GOOD, b"1", b"key")


@pytest.mark.parametrize("content_type", ["application/cloudevents+avro", "application/cloudevents", MANY, "text/x"])
def test_all_else_is_binary_and_needs_the_headers(make_codec: Any, content_type: str) -> None:
    codec = make_codec("binary", KAFKA)
    [event] = codec.decode(record(content_type, b"\x00avro", *HEADERS))
    assert (event.attributes, event.data) == ({**GOOD, "datacontenttype": content_type}, b"\x00avro")
    with pytest.raises(Refused, match="specversion is missing"):
        codec.decode(record(content_type, b"\x00avro"))


@BOTH
@pytest.mark.parametrize("data", [b'{"specversion":"1.0"}', b"no JSON", b"", None])
@pytest.mark.parametrize("content_type", [ONE, f"{ONE}; charset=utf-16", MANY])
def test_an_event_about_events_is_not_taken_for_those(
    make_codec: Any, binding: Binding, content_type: str, data: bytes | None
) -> None:
    """Its data has the media type that says structured or batch mode: binary mode would lose the event itself."""
    event = Event({**GOOD, "datacontenttype": content_type}, data)
    codec = make_codec("binary", binding)
    written = codec.encode(event)
    assert written.headers == [(b"content-type", b"application/cloudevents+json; charset=utf-8")]
    assert codec.decode(written) == [event]


def test_what_is_of_an_unknown_format_goes_as_it_is(make_codec: Any) -> None:
    codec = make_codec("binary", KAFKA)
    message = record("application/cloudevents+avro", b"\x00avro", *HEADERS)
    [event] = codec.decode(message)
    written = codec.encode(event)
    assert (sorted(written.headers), written.body) == (sorted(message.headers), message.body)


@pytest.mark.parametrize("content_type", [f"{ONE}; charset=utf-16", f'{ONE}; charset="latin1"'])
def test_another_charset_is_refused_by_the_bindings_rule(make_codec: Any, content_type: str) -> None:
    with pytest.raises(Refused) as refused:
        make_codec("binary", KAFKA).decode(record(content_type, b"{}"))
    assert refused.value.rule == "CloudEvents Kafka binding 1.0.3, section 3"


@BOTH
@pytest.mark.parametrize("data", [None, b"", b"\x00\xff", b"text"])
def test_structured_records_may_have_the_attributes_as_headers(
    make_codec: Any, binding: Binding, data: bytes | None
) -> None:
    event = Event({**GOOD, "datacontenttype": "text/plain", "n": 5, "b": True, "x": "%é"}, data, key=b"k")
    if binding is HTTP:
        event.key = None
    both, structured = make_codec("structured", binding, attribute_headers=True), make_codec("structured", binding)
    written = both.encode(event)
    assert written.body == structured.encode(event).body
    assert written.headers[0] == structured.encode(event).headers[0]
    binary = make_codec("binary", binding).encode(event)
    assert set(written.headers[1:]) == set(binary.headers) - {(b"content-type", b"text/plain")}
    assert structured.decode(written) == both.decode(written) == [event]


def test_older_events_have_their_headers_too(make_codec: Any) -> None:
    event = Event({"cloudEventsVersion": "0.1", "eventID": "1", "source": "/", "eventType": "t"}, None)
    written = make_codec("structured", KAFKA, attribute_headers=True).encode(event)
    assert {(b"ce_cloudEventsVersion", b"0.1"), (b"ce_eventID", b"1")} <= set(written.headers)
    assert make_codec("binary", KAFKA).decode(written) == [event]


def test_binary_records_have_their_headers_anyway(make_codec: Any) -> None:
    with pytest.raises(ValidationError, match="`attribute_headers` needs `mode: structured`"):
        make_codec("binary", KAFKA, attribute_headers=True)


def test_a_structured_record_without_data_has_a_value(make_codec: Any) -> None:
    written = make_codec("structured", KAFKA).encode(Event(GOOD))
    assert json.loads(written.body) == GOOD
    assert make_codec("binary", KAFKA).encode(Event(GOOD)).body is None


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"datacontenttype": "text/plain"},
        {"datacontenttype": "text/plain", "subject": "Zoë 100%", "n": -5, "b": True, "no": False},
        {"empty": ""},
        {"n": None, "datacontenttype": None},
    ],
)
@pytest.mark.parametrize("json_data", [False, True])
@pytest.mark.parametrize("data", [None, b"", b"5"])
def test_headers_with_text_for_names_are_those_of_the_message(
    make_codec: Any, more: dict[str, Any], json_data: bool, data: bytes | None
) -> None:
    codec = make_codec("binary", KAFKA)
    event = Event({**more, **GOOD}, data, json_data)
    written = codec.encode(event)
    assert codec.text_headers(event) == [(name.decode(), value) for name, value in written.headers]
    assert written.body == data


@pytest.mark.parametrize(
    "attributes",
    [
        {**GOOD, "datacontenttype": ONE},  # written in structured mode
        {**GOOD, "datacontenttype": "text/\x01"},
        {**GOOD, "a-b": "1"},
        {**GOOD, "subject": "\ud800"},
        {**GOOD, "specversion": "0.3"},
        {"cloudEventsVersion": "0.1", "eventID": "1", "source": "/", "eventType": "t"},
    ],
)
def test_all_other_events_have_no_headers_with_text_for_names(make_codec: Any, attributes: dict[str, Any]) -> None:
    assert make_codec("binary", KAFKA).text_headers(Event(attributes, b"1")) is None


def test_only_binary_mode_without_escapes_and_own_headers_has_them(make_codec: Any) -> None:
    event = Event(GOOD, b"1")
    reserving = replace(KAFKA, reserved=frozenset({b"ce_id"}))
    for codec in (
        make_codec("binary", HTTP),
        make_codec("binary", reserving),
        make_codec("structured", KAFKA),
        make_codec("structured", KAFKA, attribute_headers=True),
    ):
        assert codec.text_headers(event) is None
