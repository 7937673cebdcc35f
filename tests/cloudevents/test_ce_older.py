"""CloudEvents 0.1 in both spellings, 0.2 and 0.3: the documents of these tags of the specification."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateway_cloudevents.bindings import KAFKA

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
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

# spec.md of 0.1, section Example
EXAMPLE = r"""{
    "specversion" : "0.1",
    "type" : "com.github.pull.create",
    "source" : "https://github.com/cloudevents/spec/pull/123",
    "id" : "A234-1234-1234",
    "time" : "2018-04-05T17:31:00Z",
    "comexampleextension1" : "value",
    "comexampleextension2" : {
        "othervalue": 5
    },
    "contenttype" : "text/xml",
    "data" : "<much wow=\"xml\"/>"
}"""
# Fn Project, Common Events Specification: the request that a function gets
FN = r"""{
    "cloudEventsVersion" : "0.1",
    "eventType" : "io.fnproject.httpRequest",
    "eventTypeVersion" : "1.0",
    "source" : "https://fnservice.com/t/myApp/mytrigger",
    "eventID" : "A234-1234-1234",
    "eventTime" : "2018-04-05T17:31:00Z",
    "extensions" : {
        "ioFnProjectHttpReq" : {
            "method":"PUT",
            "headers": {"Content-type" : ["application/json"], "Authorization": ["Bearer asdlkjasldkjas"]},
            "requestURL" : "https://fnservice.com/t/myApp/mytrigger"
         }
    },
    "contentType" : "application/json",
    "data" : {"my": "data"}
}"""


def one(body: str | dict[str, Any], content_type: bytes = ONE) -> Message:
    return Message([(b"content-type", content_type)], (body if isinstance(body, str) else json.dumps(body)).encode())


def binary(headers: dict[str, str], body: bytes = b"") -> Message:
    return Message([(n.encode(), v.encode()) for n, v in headers.items()], body)


@pytest.mark.spec("CE1-01", "CE1-10", "BR-11")
def test_the_documents_example_goes_in_and_out_unchanged(make_codec: Any) -> None:
    structured = make_codec("structured")
    [event] = structured.decode(one(EXAMPLE))
    written = json.loads(structured.encode(event).body)
    assert list(written.items()) == list(json.loads(EXAMPLE).items())
    assert event.data == b'<much wow="xml"/>'


@pytest.mark.spec("FN-01", "CE1-01", "BR-11")
def test_fns_events_go_in_and_out_unchanged(make_codec: Any) -> None:
    structured = make_codec("structured")
    [event] = structured.decode(one(FN))
    assert list(json.loads(structured.encode(event).body).items()) == list(json.loads(FN).items())
    assert event.attributes["eventType"] == "io.fnproject.httpRequest"
    assert event.attributes["extensions"]["ioFnProjectHttpReq"]["method"] == "PUT"
    assert event.data == b'{"my": "data"}'


@pytest.mark.spec("CE1-07", "BR-11")
@pytest.mark.parametrize("text", [EXAMPLE, FN], ids=["draft", "released"])
@pytest.mark.parametrize("lower_case", [False, True], ids=["as sent", "names in lower case"])
def test_the_examples_survive_headers(make_codec: Any, text: str, lower_case: bool) -> None:
    """Structured in, binary on, and read again, also where HTTP made header names lower-case."""
    codec = make_codec()
    [event] = codec.decode(one(text))
    sent = codec.encode(event)
    if lower_case:
        sent = Message([(name.lower(), value) for name, value in sent.headers], sent.body)
    assert codec.decode(sent) == [event]


@pytest.mark.spec("CE1-11")
def test_released_0_1_names_its_headers_in_its_own_way(codec: Codec) -> None:
    """HTTP binding 0.1 section 3.1.3.1."""
    extensions = {"example": "v", "testExtension": {"a": [1, None]}, "n": 5, "s": "5"}
    headers = codec.encode(Event({**CAMEL, "extensions": extensions, "contentType": "text/plain"}, b"x")).headers
    assert dict(headers) == {
        b"CE-CloudEventsVersion": b"0.1",
        b"CE-EventType": b"com.example.someevent",
        b"CE-Source": b"/mycontext",
        b"CE-EventID": b"A234",
        b"CE-X-Example": b"v",
        b"CE-X-TestExtension": b'{"a":[1,null]}',
        b"CE-X-N": b"5",
        b"CE-X-S": b'"5"',
        b"content-type": b"text/plain",
    }


@pytest.mark.spec("CE1-11")
@pytest.mark.parametrize("quote", ['"', ""], ids=["quoted", "bare"])
def test_header_values_of_0_1_and_0_2_are_json_or_bare(codec: Codec, quote: str) -> None:
    """The binding's own example has quotes; the SDKs of that time had none."""
    values = {
        "ce-cloudeventsversion": "0.1", "ce-eventtype": "com.example.someevent", "ce-eventtime": "2018-04-05T03:56:24Z",
        "ce-eventid": "1234-1234-1234", "ce-source": "/mycontext/subcontext", "ce-x-word": "a%20\u00e9%E2%82%AC",
    }  # fmt: skip
    headers = {n: f"{quote}{v}{quote}" for n, v in values.items()} | {"content-type": "application/json; charset=utf-8"}
    [event] = codec.decode(binary(headers, b"{}"))
    assert event.attributes == {
        "cloudEventsVersion": "0.1",
        "eventType": "com.example.someevent",
        "eventTime": "2018-04-05T03:56:24Z",
        "eventID": "1234-1234-1234",
        "source": "/mycontext/subcontext",
        "extensions": {"word": "a \u00e9\u20ac"},
        "contentType": "application/json; charset=utf-8",
    }
    headers = {"ce-specversion": "0.2", "ce-id": "5", "ce-type": "t", "ce-source": "/", "ce-word": "w"}
    [event] = codec.decode(binary({n: f"{quote}{v}{quote}" for n, v in headers.items()}))
    assert event.attributes == {"specversion": "0.2", "id": "5", "type": "t", "source": "/", "word": "w"}


@pytest.mark.spec("CE1-07", "CE1-11", "BR-16")
@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_types_survive_headers_of_0_1_and_0_2(codec: Codec, version: str) -> None:
    """HTTP binding 0.2 section 3.1.3: maps are flattened, values are JSON."""
    extensions = {
        "n": -5, "s": "-5", "b": True, "t": "true", "q": '"', "e": "", "o": "{}", "big": "2147483648",
        "map": {"key": 5, "deep": {"Other": None}, "s": "5"}, "camel": {"otherValue": 5}, "none": {},
    }  # fmt: skip
    event = Event({**DRAFT, "specversion": version, **extensions})
    sent = codec.encode(event)
    flat = {n: v for n, v in sent.headers if b"map" in n or b"camel" in n}
    assert flat == {
        b"ce-map-key": b"5",
        b"ce-map-deep": b'{"Other":null}',
        b"ce-map-s": b'"5"',
        b"ce-camel": b'{"otherValue":5}',
    }
    assert codec.decode(sent) == [event]


@pytest.mark.spec("BR-11")
def test_0_3_maps_are_flattened_to_text(codec: Codec) -> None:
    """HTTP binding 0.3 sections 3.1.3.1 and 3.1.3.2: values are canonical strings, so types are text."""
    event = Event({**DRAFT, "specversion": "0.3", "map": {"a": "x", "b": 5, "c": True}, "n": 5})
    [read] = codec.decode(codec.encode(event))
    assert read.attributes == {
        **DRAFT,
        "specversion": "0.3",
        "map": {"a": "x", "b": "5", "c": "true"},
        "n": "5",
    }


def test_0_3_base64_of_sdk_javascript_is_decoded(codec: Codec) -> None:
    """It sends `ce-datacontentencoding: base64` and a body of Base64."""
    headers = {f"ce-{n}": v for n, v in {**DRAFT, "specversion": "0.3", "datacontentencoding": "base64"}.items()}
    [event] = codec.decode(binary({**headers, "content-type": "image/png"}, b"AP8="))
    assert (event.data, "datacontentencoding" in event.attributes) == (b"\x00\xff", False)
    [event] = codec.decode(binary({**headers, "content-type": "image/png"}, b"\x89PNG"))
    assert event.data == b"\x89PNG"


def test_kafka_has_0_1_under_its_own_names(make_codec: Any) -> None:
    kafka = make_codec("binary", KAFKA)
    event = Event({**CAMEL, "extensions": {"anyNameAtAll": {"a": 1}, "s": "1"}}, b"x", key=b"k")
    sent = kafka.encode(event)
    assert {(b"ce_eventType", b"com.example.someevent"), (b"ce_x_anyNameAtAll", b'{"a":1}')} <= set(sent.headers)
    assert kafka.decode(sent) == [event]
    sent.headers.append((b"CE_eventtype", b"other"))
    with pytest.raises(Refused, match="more than once"):
        kafka.decode(sent)


def test_kafka_names_of_0_2_count_as_written(make_codec: Any) -> None:
    kafka = make_codec("binary", KAFKA)
    event = Event({**DRAFT, "specversion": "0.2", "n": 5, "percent": "50%"}, b"x")
    sent = kafka.encode(event)
    sent.headers.insert(0, (b"CE_ID", b"other"))
    assert kafka.decode(sent) == [event]


DATA: dict[str, tuple[str | None, str, bytes]] = {
    "object": (None, '{ "a" : [1, 2.50] }', b'{ "a" : [1, 2.50] }'),
    "array": ("application/json", "[1]", b"[1]"),
    "string": (None, '"s"', b'"s"'),
    "json string": ("application/vnd.x+json", '"s"', b'"s"'),
    "number": (None, "1.5", b"1.5"),
    "boolean": (None, "false", b"false"),
    "null": (None, "null", b"null"),
    "text": ("text/plain", '"\\u00e9\\n"', "é\n".encode()),
    "text like base64": ("text/plain", '"AP8="', b"AP8="),
    "xml": ("application/xml", '"<a/>"', b"<a/>"),
    "base64": ("image/png", '"AP8="', b"\x00\xff"),
    "no base64": ("application/x-words", '"not base64"', b"not base64"),
    "object said to be text": ("text/plain", '{"a":1}', b'{"a":1}'),
}


@pytest.mark.spec("CE1-08", "CE1-01", "BR-11")
@SPELLINGS
@pytest.mark.parametrize(("content_type", "text", "data"), DATA.values(), ids=DATA.keys())
def test_data_of_any_json_type(
    make_codec: Any, good: dict[str, Any], content_type: str | None, text: str, data: bytes
) -> None:
    structured = make_codec("structured")
    name = "contentType" if good is CAMEL else "contenttype"
    members = good if content_type is None else {**good, name: content_type}
    [event] = structured.decode(one(f'{json.dumps(members)[:-1]}, "data": {text}}}'))
    assert (event.attributes, event.data) == (members, data)
    written = structured.encode(event)
    assert structured.decode(written) == [event]
    if content_type != "application/x-words":  # no text by its type, so that goes as Base64
        assert json.loads(written.body)["data"] == json.loads(text)


@SPELLINGS
def test_data_that_0_1_can_not_say_is_refused_not_changed(make_codec: Any, good: dict[str, Any]) -> None:
    """There is no `data_base64`: bytes need a media type whose strings are Base64."""
    structured = make_codec("structured")
    name = "contentType" if good is CAMEL else "contenttype"
    for content_type, data in (("text/plain", b"\xff"), ("application/json", b"{")):
        with pytest.raises(Refused, match="can't hold it") as refused:
            structured.encode(Event({**good, name: content_type}, data))
        assert refused.value.attribute == "data"
    [read] = structured.decode(structured.encode(Event(good, b"\xff")))
    assert (read.data, read.attributes[name]) == (b"\xff", "application/octet-stream")
