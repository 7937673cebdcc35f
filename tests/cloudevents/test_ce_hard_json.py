"""Events in JSON that RFC 8259 allows and the fast parser refuses, and text in other charsets."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

pytestmark = pytest.mark.spec("SAFE-106", "BR-16")

GOOD = {"specversion": "1.0", "id": "A234", "source": "/mycontext", "type": "com.example.someevent"}
ONE = b"application/cloudevents+json"
MANY = b"application/cloudevents-batch+json"


def one(body: bytes, content_type: bytes = ONE) -> Message:
    return Message([(b"content-type", content_type)], body)


def with_data(data: bytes, **attributes: str) -> bytes:
    return b'%b,"data":%b}' % (json.dumps({**GOOD, **attributes}).encode()[:-1], data)


def many(*events: bytes) -> Message:
    return one(b"[%b]" % b",".join(events), MANY)


DATA = {
    "half a pair": b'{"a":"\\ud83d"}',
    "the other half": b'["\\uDE00"]',
    "halves in the wrong order": b'"\\ude00\\ud83d"',
    "half a pair, a whole one, an escaped backslash": b'"\\uD83D\\ud83d\\ude00\\\\ud800"',
    "half a pair and its replacement": b'"\\ud8ab\\ue8ab\\u08ab\\u28ab\\u48ab\\u68ab"',
    "1,500 arrays": b"[" * 1500 + b"]" * 1500,
    "9,000 objects": b'{"a":' * 9000 + b"1" + b"}" * 9000,
    "half a pair in 1,500 arrays": b"[" * 1500 + b'"\\ud800"' + b"]" * 1500,
}


@pytest.mark.parametrize("data", DATA.values(), ids=DATA.keys())
def test_data_is_kept_byte_by_byte(codec: Codec, make_codec: Any, data: bytes) -> None:
    """Also in a batch, behind events that were read fast, and through structured mode."""
    plain = with_data(b"1")
    hard = with_data(data)
    for _ in range(2):
        [event] = codec.decode(one(hard))
        assert (event.attributes, event.data) == (GOOD, data)
        batch = codec.decode(many(plain, hard, plain))
        assert [e.data for e in batch] == [b"1", data, b"1"]
    structured = make_codec("structured")
    assert structured.decode(structured.encode(event)) == [event]


@pytest.mark.parametrize("data", DATA.values(), ids=DATA.keys())
def test_what_other_parsers_refuse_is_written_as_base64(make_codec: Any, data: bytes) -> None:
    """So that it costs no subscriber the event."""
    event = Event({**GOOD, "datacontenttype": "application/json"}, data)
    assert base64.b64decode(json.loads(make_codec("structured").encode(event).body)["data_base64"]) == data


def test_half_a_pair_in_text_becomes_the_replacement_character(codec: Codec) -> None:
    [event] = codec.decode(one(with_data(b'"a\\ud83d \\ud83d\\ude00"', datacontenttype="text/plain")))
    assert event.data == "a\ufffd \U0001f600".encode()


def test_a_byte_order_mark_is_ignored(codec: Codec) -> None:
    for body in (with_data(b"{}"), with_data(b'"\\ud83d"')):
        [plain] = codec.decode(one(body))
        assert codec.decode(one(b"\xef\xbb\xbf" + body)) == [plain]
        assert codec.decode(one(b"\xef\xbb\xbf[%b]" % body, MANY)) == [plain]


@pytest.mark.parametrize(
    "data",
    [
        b'"\\ud83d',
        b'["\\ud83d",]',
        b'{"a":"\\ud83d"}}',
        b'"\\ud83d\n"',
        b"[" * 2000 + b"]" * 1999,
        b"[" * 2000 + b",1" + b"]" * 2000,
        b"[" * 2000 + b"}" * 2000,
        b"[" * 10_001 + b"]" * 10_001,
        b"\xef\xbb\xbf1",
    ],
)
def test_what_is_no_json_is_refused_all_the_same(codec: Codec, data: bytes) -> None:
    for message in (one(with_data(data)), many(with_data(b"1"), with_data(data))):
        with pytest.raises(Refused) as refused:
            codec.decode(message)
        assert refused.value.status == 400


@pytest.mark.parametrize("filler", [b'"\\ud83d"', b"[" * 1500 + b"]" * 1500])
def test_duplicates_are_found_beside_it(codec: Codec, filler: bytes) -> None:
    for members in (b',"id":"B"}', b',"\\u0069d":"B"}', b',"data":1}'):
        with pytest.raises(Refused, match="more than once"):
            codec.decode(one(with_data(filler)[:-1] + members))


LATIN = "text/plain; charset=iso-8859-1"


@pytest.mark.spec("SAFE-108")
@pytest.mark.parametrize("version", ["1.0", "0.3", "0.2"])
def test_text_has_the_charset_that_its_type_declares(make_codec: Any, version: str) -> None:
    """Between structured mode, whose strings are Unicode, and binary mode, whose bytes have a charset."""
    binary, structured = make_codec("binary"), make_codec("structured")
    name = "contenttype" if version == "0.2" else "datacontenttype"
    body = with_data(b'"caf\\u00e9"', specversion=version, **{name: LATIN})
    [event] = structured.decode(one(body))
    sent = binary.encode(event)
    assert (sent.header(b"content-type"), sent.body) == (LATIN.encode(), b"caf\xe9")
    [back] = binary.decode(sent)
    assert back == event
    assert structured.decode(structured.encode(back)) == [event]


@pytest.mark.spec("SAFE-108")
def test_text_that_its_charset_can_not_hold_is_declared_as_utf_8(make_codec: Any) -> None:
    [event] = make_codec("structured").decode(one(with_data(b'"5 \\u20ac"', datacontenttype=LATIN)))
    assert event.attributes["datacontenttype"] == "text/plain;charset=utf-8"
    assert event.data == "5 €".encode()


@pytest.mark.spec("SAFE-108")
@pytest.mark.parametrize("charset", ["rot13", "idna", "unicode_escape", "undefined", "x-user", "us-ascii", "utf-8"])
def test_an_unknown_charset_changes_nothing(make_codec: Any, charset: str) -> None:
    kind = f"text/plain; charset={charset}"
    [event] = make_codec("structured").decode(one(with_data('"é"'.encode(), datacontenttype=kind)))
    assert (event.attributes["datacontenttype"], event.data) == (kind, "é".encode())


@pytest.mark.spec("SAFE-105")
@pytest.mark.parametrize("value", [b"1e999", b"[" * 1500 + b"]" * 1500, b'{"a":"\\ud800"}', b'"\\ud800"'])
def test_an_attribute_that_can_not_be_read_costs_itself_alone(codec: Codec, value: bytes) -> None:
    body = json.dumps(GOOD).encode()[:-1] + b',"x":%b,"y":"z"}' % value
    assert codec.decode(one(body)) == [Event({**GOOD, "y": "z"})]
    with pytest.raises(Refused) as refused:
        codec.decode(one(b'{"specversion":%b}' % value))
    assert (refused.value.attribute, "object at" in refused.value.detail) == ("specversion", False)
