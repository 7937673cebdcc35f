"""Records of Kafka: any key, value and headers are an event, or refused by name, and can be wrapped in one.

An input is a record in a form of its own: a byte with flags (key 1 or null, value 2 or null, 4 a timestamp), then
fields: the key and the value if they are there, then headers as name and value, each a length in two bytes and the
bytes. The length 65,535 is a null. A name that is not UTF-8 ends it.
"""

from __future__ import annotations

from pathlib import Path
from struct import unpack_from

from gateway_cloudevents import event_json
from gateway_kafka.client import Record
from gateway_kafka.non_cloudevent import wrap
from gateway_kafka.records import reader, writer
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, CodecRef, KeyMapperRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from tests.fuzz.checks import JSON_EVENT, check_refusal

HAS_KEY, HAS_VALUE, TIMED = 1, 2, 4
_NULL = 0xFFFF
_CONTEXT = BuildContext("fuzz", Path(), FakeClock(), Registry.installed())
_read = reader(CodecRef("cloudevents"), _CONTEXT)
_writers = [
    writer(CodecRef("cloudevents", {"mode": mode}), KeyMapperRef("none"), _CONTEXT) for mode in ("binary", "structured")
]


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    record = _record(data)
    wrapped = wrap(record, ("topic", 0))
    _check_kept(wrapped)
    assert wrapped.data == record.value
    assert wrapped.key == record.key
    for write in _writers:  # what is wrapped is an event that everyone can read
        key, value, headers = write(wrapped)
        again = _read(Record(0, 0, key, value, headers))
        assert again.attributes == wrapped.attributes
        assert (again.data or b"") == (wrapped.data or b"")
    try:
        event = _read(record)
    except Refused as e:
        refused = e
    else:
        assert event.key == record.key
        _check_kept(event)
        return
    check_refusal(refused)


def _check_kept(event: Event) -> None:
    """A dead letter keeps every byte of it."""
    again = event_json.load(event_json.dump(event))
    assert (again.attributes, again.data, again.key) == (event.attributes, event.data, event.key)
    assert again.json_data == event.json_data


def _record(data: bytes) -> Record:
    flags, fields = (data[0] if data else 0), _fields(data)
    key = next(fields, None) if flags & HAS_KEY else None
    value = next(fields, None) if flags & HAS_VALUE else None
    headers: list[tuple[str, bytes | None]] = []
    while (name := next(fields, None)) is not None:
        try:
            headers.append((name.decode(), next(fields, None)))
        except UnicodeDecodeError:  # the clients refuse these
            break
    return Record(0, 1_522_949_460_123 if flags & TIMED else -1, key, value, headers)


def _fields(data: bytes):  # type: ignore[no-untyped-def]
    at = 1
    while at + 2 <= len(data):
        (length,) = unpack_from(">H", data, at)
        at += 2
        if length == _NULL:
            yield None
            continue
        yield data[at : at + length]
        at += length


def _made(flags: int, *fields: bytes | None) -> bytes:
    return bytes([flags]) + b"".join(b"\xff\xff" if f is None else len(f).to_bytes(2, "big") + f for f in fields)


_CE = (b"ce_specversion", b"1.0", b"ce_id", b"1", b"ce_source", b"/s", b"ce_type", b"t")
SEEDS = [
    _made(7, b"key", b"value", *_CE, b"content-type", b"text/plain"),
    _made(2, b'{"a":1}', *_CE, b"content-type", b"application/json"),
    _made(0, *_CE),
    _made(1, b"key", *_CE, b"ce_n", None),
    _made(2, JSON_EVENT, b"content-type", b"application/cloudevents+json"),
    _made(2, b"[" + JSON_EVENT + b"]", b"content-type", b"application/cloudevents-batch+json"),
    _made(
        2, b"x", *_CE, b"ce_time", b"2018-04-05T17:31:00Z", b"ce_dataschema", b"http://x/y", b"ce_e", b"\xe2\x82\xac"
    ),
    _made(6, b"x", b"other", b"\xff\0", b"Content-Type", b"a/b; c=d", b"other", None),
    _made(2, b"x", b"CE_ID", b"1", b"ce_id", b"2", b"", b"", b"traceparent", b"00-1-2-01"),
    _made(2, b"x", *(name.replace(b"1.0", b"0.3") for name in _CE), b"ce_datacontentencoding", b"base64"),
    _made(3, b"\xff", b"", b"content-type", b"application/json"),
]
WORDS = [
    *(b"\0\x0ece_specversion\0\x031.0", b"\0\x0ece_specversion\0\x030.3", b"\0\x05ce_id\0\x011"),
    *(b"\0\x07ce_type\0\x01t", b"\0\x09ce_source\0\x02/s", b"\0\x07ce_time", b"\0\x0ccontent-type"),
    *(b"\0\x10application/json", b"\xff\xff", b"\0\0", b"\0\x1capplication/cloudevents+json", b"\0\x04ce_a"),
    *(b"\xef\xbf\xbe", b"\xc2\x85", b"\0\x0btraceparent", b"text/xml"),
]  # fmt: skip
