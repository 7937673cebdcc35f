"""Records that hold no event, made events."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from gateway_cloudevents.bindings import HTTP, KAFKA
from gateway_kafka.client import Record
from gateway_kafka.non_cloudevent import DEFAULT_TYPE, wrap
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Codec
from tests.budget import examples
from tests.installed import REGISTRY

TOPIC = ("orders.v1", 3)


def wrapped(
    value: bytes | None = b"v",
    key: bytes | None = None,
    headers: list[tuple[str, bytes | None]] | None = None,
    timestamp_ms: int = 1_767_225_600_007,
) -> Event:
    return wrap(Record(42, timestamp_ms, key, value, headers or []), TOPIC)


@pytest.mark.spec("KB-05")
def test_a_record_is_an_event_of_its_place_and_time() -> None:
    event = wrap(Record(42, 1_767_225_600_007, b"customer 7", b"\x00\xff", []), TOPIC, "com.example.order", 5)
    assert event.attributes == {
        "specversion": "1.0",
        "id": "3:42",
        "source": "kafka:/orders.v1",
        "type": "com.example.order",
        "time": "2026-01-01T00:00:00.007Z",
        "subject": "customer 7",
    }
    assert (event.data, event.key, event.json_data, event.received_ns) == (b"\x00\xff", b"customer 7", False, 5)
    assert wrapped().attributes["type"] == DEFAULT_TYPE


@pytest.mark.spec("KB-05")
def test_null_stays_null_and_empty_stays_empty() -> None:
    assert (wrapped(None).data, wrapped(None).key) == (None, None)
    assert (wrapped(b"", b"").data, wrapped(b"", b"").key) == (b"", b"")


@pytest.mark.parametrize("key", [None, b"", b"\xff", b"a\nb", "\u2028".encode()])
def test_a_key_that_is_no_printable_text_is_no_subject(key: bytes | None) -> None:
    event = wrapped(key=key)
    assert "subject" not in event.attributes
    assert event.key == key


@pytest.mark.parametrize("timestamp_ms", [-1, 253_402_300_800_000, 2**63 - 1], ids=["none", "year 10000", "largest"])
def test_a_time_that_can_not_be_written_is_left_out(timestamp_ms: int) -> None:
    assert "time" not in wrapped(timestamp_ms=timestamp_ms).attributes


HEADERS: dict[str, tuple[list[tuple[str, bytes | None]], dict[str, str]]] = {
    "content type": ([("Content-Type", b'text/plain; a="b;c"')], {"datacontenttype": 'text/plain; a="b;c"'}),
    "no media type": ([("content-type", b"json")], {"kafkaheadercontenttype": "json"}),
    "name": ([("X-Tenant_Id.2", b"7")], {"kafkaheaderxtenantid2": "7"}),
    "some of an event": ([("ce_id", b"7")], {"kafkaheaderceid": "7"}),
    "text": ([("a", "é ‍☃\u00a0".encode())], {"kafkaheadera": "é ‍☃\u00a0"}),
    "empty": ([("a", b"")], {"kafkaheadera": ""}),
    "null": ([("a", None)], {}),
    "no name": ([("", b"x"), ("é_", b"y")], {}),
    "the last counts": ([("a", b"1"), ("A-", b"2")], {"kafkaheadera": "2"}),
    "not UTF-8": ([("a", b"\xff\x00")], {"kafkabinarya": "/wA="}),
    "control": ([("a", b"a\nb")], {"kafkabinarya": "YQpi"}),
    "noncharacter": ([("a", "\U0001ffff".encode())], {"kafkabinarya": "8J+/vw=="}),
}


@pytest.mark.spec("KB-05")
@pytest.mark.parametrize(("headers", "attributes"), HEADERS.values(), ids=HEADERS.keys())
def test_headers_are_attributes(headers: list[tuple[str, bytes | None]], attributes: dict[str, str]) -> None:
    found = wrapped(headers=headers).attributes
    assert {n: v for n, v in found.items() if n not in ("specversion", "id", "source", "type", "time")} == attributes


def codec(mode: str, binding: object) -> Codec:
    context = BuildContext("test", Path(), FakeClock(), REGISTRY, binding=binding)  # type: ignore[arg-type]
    built: Codec = REGISTRY.build(CodecRef("cloudevents", {"mode": mode}), context)
    return built


CODECS = [codec(mode, binding) for mode in ("binary", "structured") for binding in (HTTP, KAFKA)]
HTTP_BINARY = CODECS[0]
BYTES = st.binary(max_size=6) | st.text(max_size=6).map(lambda t: t.encode(errors="replace"))
TYPES = st.sampled_from(
    [b"text/plain", b"a/b;c=d", b'a/b; c="\\"', b"application/cloudevents+json", b"application/cloudevents-batch+json"]
)
RECORDS = st.builds(
    Record,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1) | st.integers(0, 2**42),
    st.none() | BYTES,
    st.none() | BYTES,
    st.lists(
        st.tuples(st.sampled_from(["ce_id", "A", "data", "x-y"]) | st.text(max_size=4), st.none() | BYTES)
        | st.tuples(st.sampled_from(["content-type", "Content-Type"]), TYPES | BYTES),
        max_size=4,
    ),
)


@examples(150)
@given(RECORDS)
def test_any_record_becomes_an_event_that_every_mode_carries(record: Record) -> None:
    event = wrap(record, TOPIC)
    assert (event.data, event.key) == (record.value, record.key)
    for one in CODECS:
        message = one.encode(event)
        [read] = one.decode(message)
        assert read.attributes == event.attributes
        if one is HTTP_BINARY and not event.data:
            assert not read.data  # an empty body and none are the same there
        else:
            assert read.data == event.data


@examples(150)
@given(st.integers(0, 253_402_300_799_999))
def test_a_time_is_its_timestamp(timestamp_ms: int) -> None:
    time = datetime.fromisoformat(wrapped(timestamp_ms=timestamp_ms).attributes["time"])
    elapsed = time - datetime(1970, 1, 1, tzinfo=UTC)
    assert (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000 == timestamp_ms
