"""Binary mode over HTTP: CloudEvents 1.0.2 HTTP binding section 3.1."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_serving import process_facts

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

GOOD = {
    "ce-specversion": "1.0",
    "ce-id": "1234-1234-1234",
    "ce-source": "/mycontext/subcontext",
    "ce-type": "com.example.someevent",
}


def message(body: bytes = b"", *extra: tuple[bytes, bytes], **changes: str | bytes | None) -> Message:
    """A good message with headers changed (`ce_id=None` takes one away) and added."""
    headers: dict[str, str | bytes | None] = {**GOOD}
    headers.update({name.replace("_", "-"): value for name, value in changes.items()})
    pairs = [(n.encode(), v.encode() if isinstance(v, str) else v) for n, v in headers.items() if v is not None]
    return Message([*pairs, *extra], body, method="POST", url="/")


@pytest.mark.spec("DP-01", "BR-10", "BR-16")
def test_the_specifications_example_is_read(codec: Codec) -> None:
    """HTTP binding section 3.1.4; headers that carry no attribute are left alone."""
    body = b'{\n    "a" : 1\n}\n'
    [event] = codec.decode(
        message(body, (b"host", b"webhook.example.com"), (b"content-length", b"17"), (b"cee-x", b"1"),
                ce_time="2018-04-05T03:56:24Z", content_type="application/json; charset=utf-8")
    )  # fmt: skip
    assert event.attributes == {
        "specversion": "1.0",
        "id": "1234-1234-1234",
        "source": "/mycontext/subcontext",
        "type": "com.example.someevent",
        "time": "2018-04-05T03:56:24Z",
        "datacontenttype": "application/json; charset=utf-8",
    }
    assert event.data == body
    assert not event.json_data


@pytest.mark.spec("BR-10", "BR-11")
def test_0_3_is_read_and_keeps_its_names(codec: Codec) -> None:
    [event] = codec.decode(message(b"<a/>", ce_specversion="0.3", ce_schemaurl="s.xsd", content_type="text/xml"))
    assert event.attributes["specversion"] == "0.3"
    assert event.attributes["schemaurl"] == "s.xsd"
    assert event.attributes["datacontenttype"] == "text/xml"
    assert codec.decode(codec.encode(event)) == [event]


VALUES = {
    "percent-encoded": (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € \U0001f600"),
    "lower-case hex": (b"%e2%82%ac", "€"),
    "needlessly encoded": (b"%41", "A"),
    "decoded once": (b"%2541", "%41"),
    "raw UTF-8": ("Grüße".encode(), "Grüße"),
    "raw UTF-8 and percent": ("ü%20ü".encode(), "ü ü"),
    "quoted": (b'"a b"', "a b"),
    "quoted with escapes": (b'"a \\"b\\" \\\\"', 'a "b" \\'),
    "quoted and percent": (b'"%22"', '"'),
    "quote inside": (b'a"b', 'a"b'),
    "spaces": (b"a b  c", "a b  c"),
    "empty": (b"", ""),
    "private use": ("\ue000".encode(), "\ue000"),
    "percent alone": (b"100% sure", "100% sure"),
    "percent at the end": (b"50%", "50%"),
    "percent before no digits": (b"%G1 %+1 %", "%G1 %+1 %"),
    "percent and UTF-8": ("100 % süß".encode(), "100 % süß"),
    "percent before an escape": (b"%%20%2", "% %2"),
    "percent, quoted": (b'"100% \\"sure\\""', '100% "sure"'),
}


@pytest.mark.spec("DP-01", "BR-16", "SAFE-20")
@pytest.mark.parametrize(("raw", "text"), VALUES.values(), ids=VALUES.keys())
def test_header_values_are_decoded(codec: Codec, raw: bytes, text: str) -> None:
    [event] = codec.decode(message(b"", (b"ce-ext", raw)))
    assert event.attributes["ext"] == text
    assert codec.decode(codec.encode(event)) == [event]


BAD_VALUES = {
    "overlong encoding": b"%C0%A0",
    "cut UTF-8": b"%E2%82",
    "raw bytes not UTF-8": b"\xff",
    "surrogate": b"%ED%A0%80",
}
UNFIT_VALUES = {
    "control": b"a%00b",
    "raw control": b"a\x7fb",
    "C1 control": "\x85".encode(),
    "noncharacter": "\uffff".encode(),
}


@pytest.mark.spec("BR-15")
@pytest.mark.parametrize("raw", BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_bad_header_values_are_refused(codec: Codec, raw: bytes) -> None:
    with pytest.raises(Refused) as refused:
        codec.decode(message(b"", (b"ce-ext", raw)))
    assert (refused.value.status, refused.value.attribute) == (400, "ext")
    assert "section 3.1.3" in refused.value.rule


def left_out() -> int:
    return process_facts.facts()["values_left_out"]


@pytest.mark.spec("SAFE-105")
@pytest.mark.parametrize("raw", UNFIT_VALUES.values(), ids=UNFIT_VALUES.keys())
def test_a_character_that_no_attribute_may_have_costs_its_extension_alone(codec: Codec, raw: bytes) -> None:
    before = left_out()
    [event] = codec.decode(message(b"x", (b"ce-ext", raw), (b"ce-good", b"y")))
    assert (event.attributes.get("ext"), event.attributes["good"], event.data) == (None, "y", b"x")
    assert left_out() == before + 1
    with pytest.raises(Refused):
        codec.decode(message(b"x", ce_id=raw))


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no specversion": ({"ce_specversion": None}, "specversion"),
    "unknown specversion": ({"ce_specversion": "1.7"}, "specversion"),
    "empty specversion": ({"ce_specversion": ""}, "specversion"),
    "no id": ({"ce_id": None}, "id"),
    "empty id": ({"ce_id": ""}, "id"),
    "quoted empty id": ({"ce_id": '""'}, "id"),
    "no source": ({"ce_source": None}, "source"),
    "empty source": ({"ce_source": ""}, "source"),
    "source with a space": ({"ce_source": "my source"}, "source"),
    "source with a bad escape": ({"ce_source": "/a%25zz b"}, "source"),
    "source with two fragments": ({"ce_source": "/a#b#c"}, "source"),
    "no type": ({"ce_type": None}, "type"),
    "empty type": ({"ce_type": ""}, "type"),
    "empty subject": ({"ce_subject": ""}, "subject"),
    "date without time": ({"ce_time": "2018-04-05"}, "time"),
    "time without zone": ({"ce_time": "2018-04-05T17:31:00"}, "time"),
    "time with a space": ({"ce_time": "2018-04-05 17:31:00Z"}, "time"),
    "hour 24": ({"ce_time": "2018-04-05T24:00:00Z"}, "time"),
    "second 61": ({"ce_time": "2018-04-05T23:59:61Z"}, "time"),
    "31 April": ({"ce_time": "2018-04-31T17:31:00Z"}, "time"),
    "29 February 2019": ({"ce_time": "2019-02-29T17:31:00Z"}, "time"),
    "29 February 1900": ({"ce_time": "1900-02-29T17:31:00Z"}, "time"),
    "digits that are not ASCII": ({"ce_time": "２018-04-05T17:31:00Z"}, "time"),
    "time and a line break": ({"ce_time": "2018-04-05T17:31:00Z%0A"}, "time"),
    "relative dataschema": ({"ce_dataschema": "/a"}, "dataschema"),
    "dataschema scheme only": ({"ce_dataschema": "http:"}, "dataschema"),
    "content type no media type": ({"content_type": "json"}, "datacontenttype"),
    "content type empty": ({"content_type": ""}, "datacontenttype"),
    "content type not UTF-8": ({"content_type": b"text/\xff"}, "datacontenttype"),
    "name with a dash": ({"ce_foo_bar": "1"}, "foo-bar"),
    "name empty": ({"ce_": "1"}, ""),
    "name data": ({"ce_data": "1"}, "data"),
    "name not ASCII": ({"ce_größe": "1"}, "größe"),
}


OPTIONAL = ("subject", "time", "dataschema")
LEFT_OUT = {name: fault for name, fault in FAULTS.items() if fault[1] in OPTIONAL}
REFUSED = {name: fault for name, fault in FAULTS.items() if fault[1] not in OPTIONAL}


@pytest.mark.spec("SAFE-105")
@pytest.mark.parametrize(("changes", "attribute"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_an_invalid_optional_value_costs_no_event(codec: Codec, changes: dict[str, Any], attribute: str) -> None:
    for _ in range(2):
        before = left_out()
        [event] = codec.decode(message(b"{}", **changes))
        assert attribute not in event.attributes
        assert (event.attributes["id"], event.data, left_out()) == ("1234-1234-1234", b"{}", before + 1)


@pytest.mark.spec("SAFE-105")
def test_event_grids_own_sample_is_taken(codec: Codec) -> None:
    """Azure Event Grid sends the schema `#` for custom topics; it is no URI, and says nothing."""
    [event] = codec.decode(message(b"{}", ce_dataschema="#", content_type="application/json; charset=utf-8"))
    assert "dataschema" not in event.attributes


@pytest.mark.spec("BR-15", "BR-12")
@pytest.mark.parametrize(("changes", "attribute"), REFUSED.values(), ids=REFUSED.keys())
def test_faults_are_refused_by_attribute_and_rule(codec: Codec, changes: dict[str, Any], attribute: str) -> None:
    for _ in range(2):  # what was learnt of the first must not let the second through
        with pytest.raises(Refused) as refused:
            codec.decode(message(b"{}", **changes))
        assert (refused.value.status, refused.value.attribute) == (400, attribute)
        assert refused.value.rule.startswith("CloudEvents ")
        assert refused.value.detail


@pytest.mark.spec("BR-12", "BR-15")
def test_an_unknown_version_is_named(codec: Codec) -> None:
    with pytest.raises(Refused, match=r"unknown specversion '1\.7'; known: 1\.0, 0\.3"):
        codec.decode(message(b"", ce_specversion="1.7"))


@pytest.mark.spec("BR-15")
@pytest.mark.parametrize("name", ["ce-id", "ce-ext", "content-type"])
def test_a_header_that_is_there_twice_is_refused(codec: Codec, name: str) -> None:
    twice = (name.encode(), b"text/plain")
    with pytest.raises(Refused, match=f"header {name} appears more than once"):
        codec.decode(message(b"", twice, twice))


GOOD_VALUES = {
    "leap second": {"ce_time": "1990-12-31T15:59:60-08:00"},
    "fraction": {"ce_time": "1985-04-12T23:20:50.523456789012Z"},
    "lower case": {"ce_time": "1985-04-12t23:20:50z"},
    "29 February": {"ce_time": "2000-02-29T00:00:00Z"},
    "URL": {"ce_source": "https://github.com/cloudevents/spec/pull/123?a=b#c"},
    "URN": {"ce_source": "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"},
    "mail": {"ce_source": "mailto:cncf-wg-serverless@lists.cncf.io"},
    "IPv6": {"ce_source": "http://[::1]:8080/"},
    "IRI": {"ce_source": "/straße"},
    "schema": {"ce_dataschema": "http://example.com/schema.json"},
    "parameters": {"content_type": 'multipart/mixed; boundary="a b;\\"c"; charset=x'},
    "suffix": {"content_type": "application/vnd.api+json"},
    "digits": {"ce_1": "1", "ce_a2b": "x"},
    "header case": {"CE_ID": "9", "ce_id": None},
}


@pytest.mark.spec("DP-01", "BR-16")
@pytest.mark.parametrize("changes", GOOD_VALUES.values(), ids=GOOD_VALUES.keys())
def test_good_values_arrive_as_they_came(codec: Codec, changes: dict[str, Any]) -> None:
    [event] = codec.decode(message(b"x", **changes))
    for name, value in changes.items():
        if value is not None and name != "content_type":
            assert event.attributes[name.lower().removeprefix("ce_")] == value
    assert event.attributes.get("datacontenttype") == changes.get("content_type")
    assert codec.decode(codec.encode(event)) == [event]


@pytest.mark.spec("BR-16")
def test_content_type_wins_over_a_datacontenttype_header(codec: Codec) -> None:
    [event] = codec.decode(message(b"x", ce_datacontenttype="text/html", content_type="text/plain"))
    assert event.attributes["datacontenttype"] == "text/plain"


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        (b"", None, None),
        (b"", "text/plain", b""),
        (b"\x00\xff", None, b"\x00\xff"),
        (b"null", "application/json", b"null"),
    ],
)
@pytest.mark.spec("BR-16")
def test_data_is_the_body(codec: Codec, body: bytes, content_type: str | None, data: bytes | None) -> None:
    [event] = codec.decode(message(body, content_type=content_type))
    assert event.data == data


@pytest.mark.spec("DP-03", "BR-16")
def test_encoded_headers_are_percent_encoded(codec: Codec) -> None:
    event = Event(
        {"specversion": "1.0", "id": '"é\U0001f600%\x7f ', "source": "/", "type": "t", "n": -5, "b": True}, b"x"
    )
    headers = dict(codec.encode(event).headers)
    assert headers[b"ce-id"] == b"%22%C3%A9%F0%9F%98%80%25%7F%20"
    assert (headers[b"ce-n"], headers[b"ce-b"]) == (b"-5", b"true")
    assert b"content-type" not in headers


@pytest.mark.spec("DP-03")
def test_json_without_a_content_type_gets_one(codec: Codec) -> None:
    """json-format.md section 3.1.2: the implied type is made explicit."""
    event = Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t"}, b'{"a":1}', json_data=True)
    assert (b"content-type", b"application/json") in codec.encode(event).headers
    assert "datacontenttype" not in event.attributes


@pytest.mark.parametrize(
    "attributes",
    [{"bad name": "x"}, {"a\r\nb": "x"}, {"": "x"}, {"datacontenttype": "text/plain\r\nx: y"}],
    ids=["space", "line break", "empty", "content type"],
)
def test_an_event_that_would_break_headers_is_not_written(codec: Codec, attributes: dict[str, str]) -> None:
    """Events also come from other codecs: nothing of theirs may smuggle a header."""
    with pytest.raises(Refused):
        codec.encode(Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t", **attributes}))


URIS = {
    "space": ("https://h/my%20file.txt", "https://h/my%20file.txt"),
    "slash": ("https://h/a%2Fb", "https://h/a%2Fb"),
    "slash, lower case": ("/a%2fb", "/a%2fb"),
    "ampersand": ("https://h/?a=b%26c", "https://h/?a=b%26c"),
    "percent": ("https://h/100%25", "https://h/100%25"),
    "space and ampersand": ("urn:a%20b:c%26d", "urn:a%20b:c%26d"),
    "as the binding says: percent": ("https://h/my%2520file", "https://h/my%20file"),
    "as the binding says: escaped slash": ("https://h/a%252Fb", "https://h/a%2Fb"),
    "as the binding says: other scripts": ("/stra%C3%9Fe", "/straße"),
    "every delimiter escaped": ("https%3A%2F%2Fh%2Fa%3Fb", "https://h/a?b"),
    "every delimiter but the slash": ("https%3A//h/a", "https://h/a"),
}


@pytest.mark.spec("SAFE-107", "BR-16")
@pytest.mark.parametrize(("raw", "uri"), URIS.values(), ids=URIS.keys())
@pytest.mark.parametrize("attribute", ["source", "dataschema"])
def test_a_uri_is_taken_raw_where_only_that_can_be_meant(codec: Codec, attribute: str, raw: str, uri: str) -> None:
    """sdk-go, sdk-java and version 1 of sdk-python percent-encode nothing; the binding (section 3.1.3.2) decodes."""
    if attribute == "dataschema" and ":" not in uri:
        uri, raw = f"x:{uri}", f"x:{raw}"
    [event] = codec.decode(message(b"", **{f"ce_{attribute}": raw}))
    assert event.attributes[attribute] == uri
    assert codec.decode(codec.encode(event)) == [event]


@pytest.mark.spec("SAFE-107")
@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
def test_a_uri_of_an_older_version_is_taken_raw_too(codec: Codec, version: str) -> None:
    [event] = codec.decode(
        message(b"", ce_specversion=version, ce_source="https://h/my%20file", ce_schemaurl="x:a%2F/")
    )
    assert (event.attributes["source"], event.attributes["schemaurl"]) == ("https://h/my%20file", "x:a%2F/")
    assert codec.decode(codec.encode(event)) == [event]
