"""Hard JSON through every door: the same event, byte for byte, with the same key and the same verdict.

`disagreements` is the search. A door takes the data of an event in JSON and tells what arrives; planted doors, each
with a fault that a real door had, show that it finds them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gateway_cloudevents import event_files, event_json, jsonwrite
from gateway_cloudevents.bindings import HTTP, KAFKA
from gateway_deadletter import line as letters
from gateway_http.cli import events as sent
from gateway_http.cli.post import binary as sent_binary
from gateway_log.export import line_of as exported
from gateway_mqtt.binding import MQTT, Publish, properties
from gateway_nats.binding import NATS, headers_of
from gateway_nats.binding import message_of as of_nats
from gateway_rabbitmq.binding import AMQP, split
from gateway_rabbitmq.binding import to_message as of_amqp
from gateway_rabbitmq.wire import Content
from gateway_redis.binding import REDIS, fields_of
from gateway_redis.binding import message_of as of_redis
from gateway_testing import FakeClock
from gateway_websocket.subprotocol import BINDING as WEBSOCKET
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.component import Binding, BuildContext, CodecRef, FilterRef, KeyMapperRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from tests.budget import examples
from tests.hard_json import JSON, NO_JSON, is_json
from tests.installed import REGISTRY

pytestmark = pytest.mark.spec("SAFE-106", "BR-16")

CONTEXT = BuildContext("test", Path(), FakeClock(), REGISTRY)
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json"}
ONE = (b"content-type", b"application/cloudevents+json")
MANY = (b"content-type", b"application/cloudevents-batch+json")


def codec(binding: Binding, mode: str = "binary") -> Any:
    return CONTEXT.build(CodecRef("cloudevents", {"mode": mode}), binding=binding)


@dataclass
class Arrived:
    """What came out of a door. `opaque` doors carry any bytes; others refuse what is no JSON."""

    events: list[Event] | None
    opaque: bool


Door = Callable[[bytes], Arrived]


def structured(data: bytes) -> bytes:
    """As a sender writes it that checks nothing."""
    return json.dumps(GOOD).encode()[:-1] + b',"data":%b}' % data


def _decoded(binding: Binding, message: Message) -> list[Event] | None:
    try:
        found: list[Event] = codec(binding).decode(message)
    except Refused:
        return None
    return found


def structured_door(binding: Binding) -> Door:
    return lambda data: Arrived(_decoded(binding, Message([ONE], structured(data))), False)


def batch_door(data: bytes) -> Arrived:
    """Between two events that are read fast."""
    events = _decoded(HTTP, Message([MANY], b"[%b,%b,%b]" % (structured(b"0"), structured(data), structured(b"0"))))
    if events is not None:
        assert [e.data for e in (events[0], events[2])] == [b"0", b"0"]
    return Arrived(events and events[1:2], False)


def marked_door(data: bytes) -> Arrived:
    return Arrived(_decoded(HTTP, Message([ONE], b"\xef\xbb\xbf" + structured(data))), False)


def zipped_door(data: bytes) -> Arrived:
    coded = Message([ONE, (b"content-encoding", b"gzip")], gzip.compress(structured(data), 1))
    return Arrived(_decoded(KAFKA, coded), False)


def written_door(binding: Binding, mode: str, carry: Callable[[Message], Message]) -> Door:
    """Out through a sink's codec, over the transport's own form of a message, in through a source's codec."""

    def door(data: bytes) -> Arrived:
        message = codec(binding, mode).encode(Event(dict(GOOD), data))
        return Arrived(_decoded(binding, carry(message)), True)

    return door


def _over_nats(message: Message) -> Message:
    return of_nats(headers_of(message), message.body or b"")


def _over_mqtt(message: Message) -> Message:
    packed = properties(message).pack()
    return Publish(0x30, b"\x00\x01t" + packed + (message.body or b""), properties=True).message()


def _over_amqp(message: Message) -> Message:
    kind, headers = split(message)
    return of_amqp(Content(message.body or b"", dict(headers), kind.decode()))


def _over_redis(message: Message) -> Message:
    return of_redis(fields_of(message))


def _same(message: Message) -> Message:
    return message


def file_door(data: bytes) -> Arrived:
    """A line of the file sink, taken back by an ingress; `load` reads the same."""
    text = event_json.line(Event(dict(GOOD), data))
    assert b"\n" not in text
    events = _decoded(HTTP, Message([ONE], text))
    assert events == [event_json.load(text)]
    return Arrived(events, True)


def letter_door(data: bytes) -> Arrived:
    line = letters.write(Event(dict(GOOD), data), 1)
    assert letters.id_of(line)
    return Arrived([letters.read(line)[1]], True)


def export_door(data: bytes) -> Arrived:
    text = exported(Event(dict(GOOD), data, position=7)).encode()
    events = _decoded(HTTP, Message([ONE], text))
    for event in events or []:
        assert event.attributes.pop("tidegateposition") == 7
    return Arrived(events, True)


def sent_door(mode: str) -> Door:
    """A line of a file through `tidegate send`."""

    def door(data: bytes) -> Arrived:
        try:
            (text,) = event_files.read(BytesIO(b"[" + structured(data) + b"]"), "file")
        except CommandError:
            return Arrived(None, False)
        if mode == "binary":
            headers, body = sent_binary(sent.event_of(text))
            return Arrived(_decoded(HTTP, Message([(n.encode(), v.encode()) for n, v in headers.items()], body)), False)
        return Arrived(_decoded(HTTP, Message([ONE], sent.plain(text))), False)

    return door


def webhook_door(data: bytes) -> Arrived:
    """Its templates read beside the data; what they need is lost only with a body that is no JSON."""
    reader = CONTEXT.build(CodecRef("webhook", {"type": "{/type}", "source": "/s", "id": "{/id}"}), binding=HTTP)
    kind = (b"content-type", b"application/json")
    try:
        (event,) = reader.decode(Message([kind], b'{"id":"1","o":%b,"type":"t"}' % data))
    except Refused:
        return Arrived(None, False)
    whole = event.data or b""
    event.data = whole[len(b'{"id":"1","o":') : -len(b',"type":"t"}')]
    return Arrived([event], False)


def function_door(data: bytes) -> Arrived:
    reader = CONTEXT.build(CodecRef("fn", {"lenient": True}), binding=HTTP)
    try:
        events: list[Event] = reader.decode(Message([ONE], structured(data)))
    except Refused:
        return Arrived(None, False)
    if data == b"null":
        events[0].data = b"null"  # a function that returns nothing
    return Arrived(events, False)


WRITTEN = {
    "http": (HTTP, _same),
    "kafka": (KAFKA, _same),
    "mqtt": (MQTT, _over_mqtt),
    "nats": (NATS, _over_nats),
    "rabbitmq": (AMQP, _over_amqp),
    "redis": (REDIS, _over_redis),
}
DOORS: dict[str, Door] = {
    **{f"{b.name}, structured": structured_door(b) for b in (HTTP, KAFKA, MQTT, NATS, AMQP, REDIS, WEBSOCKET)},
    "http, batch": batch_door,
    "http, byte-order mark": marked_door,
    "kafka, structured, gzip": zipped_door,
    **{f"{n}, {m}, there": written_door(b, m, c) for n, (b, c) in WRITTEN.items() for m in ("binary", "structured")},
    "file sink and back": file_door,
    "dead letter and back": letter_door,
    "export of the log": export_door,
    **{f"send, {mode}": sent_door(mode) for mode in ("binary", "structured")},
    "webhook": webhook_door,
    "function": function_door,
}

REWRITES_LINE_FEEDS = ("file sink and back", "export of the log")

Key = Callable[[Event], bytes | None]


def _key(config: Any) -> Key:
    mapper: Key = CONTEXT.build(KeyMapperRef.parse(config))
    return mapper


KEYS: dict[str, Key] = {
    "$.k": _key({"jsonpath": "$.k"}),
    "$['k'] by name": _key({"jsonpath": "$['\\u006b']"}),
    "$.o.k": _key({"jsonpath": "$.l[0].k"}),
}
FILTERS = [
    CONTEXT.build(FilterRef.parse(filter))
    for filter in ({"exact": {"type": "t"}}, {"prefix": {"id": "1"}}, {"cesql": "type = 't' AND source LIKE '/%'"})
]


def keyed(data: bytes) -> bytes:
    """Data with keys on either side of a value."""
    return b'{"l":[{"k":"x"}],"o":%b,"k":"x"}' % data


def _is_utf8(data: bytes) -> bool:
    """A key is read without a look at the bytes of other strings."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- the search -------------------------------------------------------------------------------------------------------


def disagreements(data: bytes, valid: bool, doors: Mapping[str, Door], keys: Mapping[str, Key]) -> Iterator[str]:
    """What doors and key mappers do with this text that they must not."""
    for name, door in doors.items():
        try:
            arrived = door(data)
        except Exception as e:
            yield f"{name}: {type(e).__name__}: {e}"[:200]
            continue
        if not valid and not arrived.opaque:
            if arrived.events is not None:
                yield f"{name}: took what is no JSON"
            continue
        if arrived.events is None or len(arrived.events) != 1:
            yield f"{name}: the event did not arrive"
            continue
        (event,) = arrived.events
        spaced = data.translate(_SPACED) if valid and name in REWRITES_LINE_FEEDS else data
        if event.data not in (data, spaced):
            yield f"{name}: other data: {event.data!r:.80}"
        if name not in OTHER_ATTRIBUTES and event.attributes != GOOD:
            yield f"{name}: other attributes: {event.attributes}"
        if not all(wants.matches(event) for wants in FILTERS):
            yield f"{name}: a filter says no"
    for name, key in keys.items():
        found = key(Event(dict(GOOD), keyed(data)))
        if found != (b"x" if valid else None) and not (found == b"x" and not _is_utf8(data)):
            yield f"{name}: the key is {found!r}"


_SPACED = bytes.maketrans(b"\n\r", b"  ")
OTHER_ATTRIBUTES = ("webhook",)

CASES: dict[str, tuple[bytes, bool]] = {
    **{name: (text, True) for name, text in JSON.items()},
    **{f"no JSON: {name}": (text, False) for name, text in NO_JSON.items()},
}


@pytest.mark.slow
@pytest.mark.parametrize(("data", "valid"), CASES.values(), ids=CASES.keys())
def test_every_door_says_the_same(data: bytes, valid: bool) -> None:
    assert list(disagreements(data, valid, DOORS, KEYS)) == []


SPACES = st.text(" \t\r\n", max_size=2).map(str.encode)
SHALLOW = [text for name, text in JSON.items() if len(text) < 500]


def _arrays(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    def joined(parts: list[bytes], space: bytes) -> bytes:
        return b"[" + space + (b"," + space).join(parts) + space + b"]"

    def named(parts: list[bytes], names: list[bytes], space: bytes) -> bytes:
        return b"{" + b",".join(b"%b%b:%b%b" % (n, space, space, p) for n, p in zip(names, parts, strict=False)) + b"}"

    names = st.lists(st.sampled_from([t for t in SHALLOW if t.startswith(b'"')]), max_size=3)
    parts = st.lists(inner, max_size=3)
    return st.builds(joined, parts, SPACES) | st.builds(named, parts, names, SPACES)


TEXTS = st.recursive(st.sampled_from(SHALLOW), _arrays, max_leaves=6)


@pytest.mark.slow
@examples(60)
@given(TEXTS)
def test_every_door_takes_what_is_put_together_of_hard_json(data: bytes) -> None:
    assert list(disagreements(data, True, DOORS, KEYS)) == []


@pytest.mark.slow
@examples(100)
@given(TEXTS, st.integers(0, 200), st.sampled_from([b"", *(bytes((c,)) for c in b'"\\[]{},:0 u\xff')]))
def test_every_door_reads_damaged_json_as_python_does(data: bytes, at: int, other: bytes) -> None:
    at = min(at, len(data) - 1)
    damaged = data[:at] + other + data[at + 1 :]
    if damaged != damaged.strip(b" \t\r\n") or b'"k"' in damaged:
        return
    if is_json(keyed(damaged)) != is_json(damaged):  # a comma may make members of it, or of a batch an event more
        return
    assert list(disagreements(damaged, is_json(damaged), DOORS, KEYS)) == []


# -- the search finds planted faults ----------------------------------------------------------------------------------

_plain = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def planted_parser(data: bytes) -> Arrived:
    """One fast parser for all: the fault that cost a whole batch."""
    try:
        raw = _plain(structured(data))
    except (msgspec.DecodeError, RecursionError):
        return Arrived(None, False)
    return Arrived([Event(dict(GOOD), bytes(raw["data"]))], False)


def planted_rewriting(data: bytes) -> Arrived:
    """Data that is parsed and written again: other digits, other escapes."""
    try:
        text = json.dumps(json.loads(data))
    except (ValueError, RecursionError):
        return Arrived(None, False)
    return Arrived([Event(dict(GOOD), text.encode())], False)


def planted_replacement(data: bytes) -> Arrived:
    """Half a pair as the replacement character."""
    return structured_door(HTTP)(data.replace(b"\\ud83d", b"\\ufffd"))


def planted_leniency(data: bytes) -> Arrived:
    """Python's parser with its extensions."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return Arrived(None, False)
    return Arrived([Event(dict(GOOD), data)], False)


def planted_letter(data: bytes) -> Arrived:
    """A dead letter with data in it that its own reader refuses."""
    line = b'{"event":%b}' % structured(data)
    return Arrived([letters.read(line)[1]], False)


def planted_line(data: bytes) -> Arrived:
    """A line of a file with the line feeds of its data in it."""
    text = jsonwrite.encode(Event(dict(GOOD), data))
    return Arrived(_decoded(HTTP, Message([ONE], text.split(b"\n")[0])), True)


def planted_key(event: Event) -> bytes | None:
    """A key that other members cost."""
    try:
        return event.data and str(msgspec.json.decode(event.data)["k"]).encode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


@pytest.mark.parametrize(
    "door",
    [planted_parser, planted_rewriting, planted_replacement, planted_leniency, planted_letter, planted_line],
    ids=lambda door: door.__name__,
)
def test_the_search_finds_a_planted_door(door: Door) -> None:
    found = [line for case in CASES.values() for line in disagreements(*case, {"planted": door}, {})]
    assert found


def test_the_search_finds_a_planted_key() -> None:
    found = [line for case in CASES.values() for line in disagreements(*case, {}, {"planted": planted_key})]
    assert found
