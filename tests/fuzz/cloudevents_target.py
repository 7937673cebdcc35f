"""Messages of HTTP and Kafka that may hold events: read, or refused by name.

An input is a byte that says what it is (0 a JSON event, 1 a JSON batch, 2 an HTTP message, 3 a Kafka record; the rest
counts modulo 4), then that. A message is lines of `name:value`, an empty line and the body.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from gateway_cloudevents.bindings import HTTP
from gateway_kafka.client import Record
from gateway_kafka.non_cloudevent import wrap
from gateway_kafka.records import reader, writer
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, CodecRef, KeyMapperRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec
from tests.fuzz.checks import check_refusal

JSON = (b"content-type", b"application/cloudevents+json")
BATCH = (b"content-type", b"application/cloudevents-batch+json")

_CONTEXT = BuildContext("fuzz", Path(), FakeClock(), Registry.installed(), binding=HTTP)


def _codec(mode: str = "binary") -> Codec:
    codec: Codec = _CONTEXT.build(CodecRef("cloudevents", {"mode": mode}))
    return codec


_used, _structured = _codec(), _codec("structured")
_read_record = reader(CodecRef("cloudevents"), _CONTEXT)
_write_record = writer(CodecRef("cloudevents"), KeyMapperRef("none"), _CONTEXT)


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    kind, data = (data[0] % 4, data[1:]) if data else (0, b"")
    if kind == 3:
        _check_record(*_message(data))
        return
    headers, body = ([JSON if kind == 0 else BATCH], data) if kind < 2 else _message(data)
    message = Message([(name.lower(), value) for name, value in headers], body)
    events = _events(_used, message)
    _same(events, _events(_codec(), message))  # what was learnt of others matters for none
    for event in events if isinstance(events, list) else []:
        _check_event(event)
    if kind == 0 and isinstance(events, list):
        _compare(data, events[0])


def _events(codec: Codec, message: Message) -> list[Event] | Refused:
    try:
        return codec.decode(message)
    except Refused as e:
        refused = e
    check_refusal(refused)
    assert refused.rule
    return refused


def _same(one: list[Event] | Refused, other: list[Event] | Refused) -> None:
    if isinstance(one, Refused) or isinstance(other, Refused):
        assert isinstance(one, Refused), "a codec that was used before takes more"
        assert isinstance(other, Refused), "a codec that was used before takes less"
        assert (one.attribute, one.status, one.detail) == (other.attribute, other.status, other.detail)
    else:
        assert one == other
        assert [e.json_data for e in one] == [e.json_data for e in other]


def _check_event(event: Event) -> None:
    """What is written is read again."""
    whole = event.attributes.get("specversion") in ("1.0", "0.3")  # older ones have no place for some data
    try:
        [again] = _used.decode(_structured.encode(event))
        assert _bare(again) == _bare(event) or (not whole and again.data == event.data), "written it is another event"
    except Refused:
        assert not whole
    try:
        [back] = _used.decode(_used.encode(event))
    except Refused:
        # a name that no header can have; older versions also have maps with values that none can have
        assert event.attributes.get("specversion") != "1.0" or not _is_plain(event)
        return
    assert _names(back) >= _names(event) - {"datacontentencoding"}, "an attribute is lost"
    assert (back.data or b"") == (event.data or b"")


def _names(event: Event) -> set[str]:
    """The attributes' names, as headers have them."""
    return {name.lower() for name in event.attributes}


def _bare(event: Event) -> Event:
    """The event without white space around data, which JSON data loses."""
    return Event(event.attributes, event.data.strip() if event.data else event.data, key=None)


def _is_plain(event: Event) -> bool:
    return all(re.fullmatch("[a-z0-9]+", name) for name in event.attributes)


def _compare(body: bytes, event: Event) -> None:
    """Attributes and data are what another JSON parser finds, but for optional attributes that no event may have."""
    try:
        found = json.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except RecursionError:
        return
    attributes = {n: v for n, v in found.items() if v is not None and n not in ("data", "data_base64")}
    encoding = attributes.get("datacontentencoding")
    if isinstance(encoding, str) and encoding.lower() == "base64" and attributes.get("specversion") == "0.3":
        attributes.pop("datacontentencoding")
        event = Event({n: v for n, v in event.attributes.items() if n != "datacontentencoding"}, None)
    assert event.attributes.items() <= attributes.items()
    for name in attributes.keys() - event.attributes.keys():
        assert name.lower() not in _REQUIRED, "an event is not taken without what is required"
        _check_left_out(event, name, attributes[name])
    if event.data is not None and event.json_data:
        assert repr(json.loads(event.data)) == repr(found["data"])


_REQUIRED = {"specversion", "id", "source", "type", "cloudeventsversion", "eventid", "eventtype"}


def _check_left_out(event: Event, name: str, value: object) -> None:
    """What was left out beside others is left out alone."""
    bare = {n: v for n, v in event.attributes.items() if n.lower() in _REQUIRED}
    [alone] = _codec().decode(Message([JSON], json.dumps({**bare, name: value}).encode()))
    assert name not in alone.attributes, "a valid attribute is left out"


def _check_record(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    named = [(name.decode("utf-8", "replace"), value) for name, value in headers]
    record = Record(0, 0, b"key", body, named)
    wrapped = wrap(record, ("topic", 0))
    [again] = _used.decode(_structured.encode(wrapped))
    assert _bare(again) == _bare(wrapped), "what is no event is not wrapped into one"
    try:
        event = _read_record(record)
    except Refused as e:
        refused = e
    else:
        _check_written(event)
        return
    check_refusal(refused)
    assert refused.rule


def _check_written(event: Event) -> None:
    try:
        key, value, written = _write_record(event)
    except Refused:
        return
    again = _read_record(Record(0, 0, key, value, written))
    assert (again.data or b"") == (event.data or b"")


def _message(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    head, _, body = data.partition(b"\n\n")
    fields = [line.partition(b":") for line in head.split(b"\n") if line]
    return [(name, value) for name, _, value in fields], body


_EVENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"'
_BINARY = b"ce-specversion:1.0\nce-id:1\nce-source:/s\nce-type:t\n"
_KAFKA = _BINARY.replace(b"ce-", b"ce_")
_BODIES = [
    _EVENT + b"}",
    _EVENT + b',"data":{"a":[1,2.5,"x"]},"time":"2018-04-05T17:31:00Z"}',
    _EVENT + b',"datacontenttype":"text/plain","data":"x","subject":"s","n":5,"b":true}',
    _EVENT + b',"data_base64":"AAEC","dataschema":"http://x/y"}',
    _EVENT.replace(b"1.0", b"0.3") + b',"datacontentencoding":"base64","data":"AAEC"}',
    _EVENT.replace(b"1.0", b"0.2") + b',"contenttype":"text/xml","data":"<a/>","map":{"a":1}}',
    b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"t","extensions":{"a":{"b":1}},"data":"x"}',
    _EVENT + b',"data":' + b"[" * 300 + b"]" * 300 + b"}",
    _EVENT + b',"\\u0069d":"2"}',
]
SEEDS = [
    *(b"\0" + body for body in _BODIES),
    *(b"\1[" + b",".join(_BODIES[i:]) + b"]" for i in range(3)),
    b"\1[]",
    b"\2" + _BINARY + b"content-type:application/json\n\n{}",
    b"\2" + _BINARY + b'ce-x:"a \\" b" %41%zz\nce-time:2018-04-05T17:31:00Z\n\n\xff',
    b"\2" + _BINARY.replace(b"1.0", b"0.2") + b'ce-m-a:1\nce-m-b:"x"\nce-n:{"a":1}\n\nx',
    b'\2CE-CloudEventsVersion:"0.1"\nCE-EventID:1\nCE-Source:/s\nCE-EventType:t\nCE-X-A:{"b":1}\n\nx',
    b"\2content-type:application/cloudevents+json; charset=utf-8\n\n" + _BODIES[0],
    b"\3" + _KAFKA + b"content-type:text/plain\n\nx",
    b"\3content-type:application/cloudevents+json\n\n" + _BODIES[1],
    b"\3CE_ID:1\nother:\xff\nContent-Type:a/b;c=d\n\nx",
]
WORDS = [
    *(b'"specversion":"1.0"', b'"0.3"', b'"0.2"', b'"0.1"', b'"id":"1"', b'"source":"/s"', b'"type":"t"', b'"data":'),
    *(b'"data_base64":', b'"datacontenttype":"', b"application/json", b"text/plain", b'"time":"2018-04-05T17:31:00Z"'),
    *(b'"datacontentencoding":"base64"', b'"extensions":{', b'"eventID":', b'"cloudEventsVersion":"0.1"', b"null"),
    *(b"ce-id:", b"ce-", b"ce_", b"content-type:", b"charset=utf-8", b"\\u0000", b"\\ud800", b"%00", b"%E2%82%AC"),
    *(b"[" * 200, b"]" * 200, b'{"a":' * 200, b"}" * 200, b"1e999", b"2147483648", b"-0", b"\xff", b"\n\n", b"%"),
]  # fmt: skip
