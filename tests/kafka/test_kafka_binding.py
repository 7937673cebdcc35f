"""The CloudEvents Kafka binding 1.0.3 through a real gateway and a real broker, for both clients.

One gateway for each client carries everything, by bridges. What it writes is read by Kafka's own console consumer.
"""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime

import pytest

from tests.kafka_lab import ALL_BYTES, MANY, ONE, OUT, REQUIRED, Lab, headers_of

pytestmark = pytest.mark.xdist_group("kafka-binding")

# -- HTTP to Kafka ------------------------------------------------------------------------------------------------


@pytest.mark.spec("KB-01", "KB-09", "KB-10", "KB-12", "CARD-06")
def test_binary_mode_out(lab: Lab) -> None:
    id = lab.post_binary(
        "binary", ALL_BYTES, content_type="application/x-thing; a=b", subject="Zo%C3%AB 100%25", tenant="%E2%98%83"
    )
    record = lab.record(id)
    assert record.value == ALL_BYTES
    assert record.key is None
    assert headers_of(record) == {
        "ce_specversion": "1.0",
        "ce_id": id,
        "ce_source": "/s",
        "ce_type": "t",
        "ce_subject": "Zoë 100%",
        "ce_tenant": "☃",
        "content-type": "application/x-thing; a=b",
    }


@pytest.mark.spec("KB-11")
def test_no_data_is_a_null_value_and_empty_data_an_empty_one(lab: Lab) -> None:
    none, empty = lab.post_binary("binary"), lab.post_binary("binary", content_type="text/plain")
    assert lab.record(none).value is None
    assert lab.record(empty).value == b""


@pytest.mark.spec("KB-02", "KB-13", "KB-14", "CARD-06")
def test_structured_mode_out(lab: Lab) -> None:
    some = lab.post_binary("structured", b'{"a": 1.0}', content_type="application/json", subject="Zo%C3%AB")
    none = lab.post_binary("structured")
    for id, more in ((some, {"subject": "Zoë", "datacontenttype": "application/json", "data": {"a": 1.0}}), (none, {})):
        record = lab.record(id)
        assert headers_of(record) == {"content-type": "application/cloudevents+json; charset=utf-8"}
        assert json.loads(record.value or b"") == {**REQUIRED, "id": id, **more}


@pytest.mark.spec("KB-15")
def test_structured_records_may_have_attribute_headers(lab: Lab) -> None:
    id = lab.post_binary("both", b"text", content_type="text/plain", subject="Zo%C3%AB")
    record = lab.record(id)
    named = {**REQUIRED, "id": id, "subject": "Zoë"}
    assert headers_of(record) == {
        "content-type": "application/cloudevents+json; charset=utf-8",
        **{f"ce_{n}": v for n, v in named.items()},
    }
    assert json.loads(record.value or b"") == {**named, "datacontenttype": "text/plain", "data": "text"}


@pytest.mark.spec("KB-16")
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_batch_is_a_record_for_each_event(lab: Lab, mode: str) -> None:
    ids = [lab.id() for _ in range(3)]
    batch = [{**REQUIRED, "id": id, "data": {"n": n}} for n, id in enumerate(ids)]
    assert lab.post(mode, {"content-type": MANY}, json.dumps(batch).encode()).status_code == 202
    records = lab.records(ids)
    assert len(records) == 3
    data = [json.loads(record.value or b"") for record in records]
    assert [d["data"] if mode == "structured" else d for d in data] == [{"n": 0}, {"n": 1}, {"n": 2}]
    expected = "application/json" if mode == "binary" else f"{ONE}; charset=utf-8"
    assert {headers_of(record)["content-type"] for record in records} == {expected}


@pytest.mark.spec("KB-16")
def test_data_that_is_a_batch_does_not_make_the_record_one(lab: Lab) -> None:
    id = lab.id()
    event = {**REQUIRED, "id": id, "datacontenttype": MANY, "data": [{**REQUIRED, "id": "inner"}]}
    assert lab.post("binary", {"content-type": ONE}, json.dumps(event).encode()).status_code == 202
    record = lab.record(id)
    assert headers_of(record) == {"content-type": f"{ONE}; charset=utf-8"}
    assert json.loads(record.value or b"") == event


# -- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("KB-06", "KB-07", "KB-08")
def test_partitionkey_is_the_key_where_it_is_there(lab: Lab) -> None:
    with_one, without = lab.post_binary("partitionkey", partitionkey="Zo%C3%AB"), lab.post_binary("partitionkey")
    record = lab.record(with_one)
    assert record.key == "Zoë".encode()
    named = {**REQUIRED, "id": with_one, "partitionkey": "Zoë"}
    assert headers_of(record) == {f"ce_{n}": v for n, v in named.items()}
    assert lab.record(without).key is None


@pytest.mark.spec("KB-07", "KB-08")
def test_without_partitionkey_a_record_keeps_its_key(lab: Lab) -> None:
    kept = lab.put(b"x", key=b"its own", route="rekey")
    changed = lab.put(b"x", key=b"its own", route="rekey", partitionkey="pk")
    assert lab.record(kept).key == b"its own"
    assert "ce_partitionkey" not in headers_of(lab.record(kept))
    assert lab.record(changed).key == b"pk"
    assert headers_of(lab.record(changed))["ce_partitionkey"] == "pk"


@pytest.mark.spec("KB-08")
def test_a_key_out_of_the_data_changes_nothing(lab: Lab) -> None:
    data = b'{"customer": {"id": "c-7"} }'
    id = lab.post_binary("jsonpath", data, content_type="application/json")
    record = lab.record(id)
    assert (record.key, record.value) == (b"c-7", data)
    assert headers_of(record).keys() == {*(f"ce_{n}" for n in REQUIRED), "ce_id", "content-type"}


@pytest.mark.spec("KB-06", "KB-17", "KB-10", "KB-11")
@pytest.mark.parametrize("key", [None, b"", b"k", ALL_BYTES], ids=["null", "empty", "text", "bytes"])
@pytest.mark.parametrize("route", ["copy", "restructure"])
def test_kafka_to_kafka_keeps_keys(lab: Lab, route: str, key: bytes | None) -> None:
    id = lab.put(b"v", key=key, route=route, partitionkey="another")
    assert lab.record(id).key == key


def test_a_mapper_may_take_keys_away(lab: Lab) -> None:
    assert lab.record(lab.put(b"v", key=b"k", route="unkey")).key is None


# -- Kafka to HTTP, and to Kafka ----------------------------------------------------------------------------------


@pytest.mark.spec("KB-01", "KB-09", "KB-10", "KB-12")
def test_binary_mode_in(lab: Lab) -> None:
    more = {"subject": "Zoë 100%", "tenant": "☃", "time": "2026-01-02T03:04:05.120+02:00"}
    id = lab.put(
        ALL_BYTES, [("content-type", b"application/x-thing"), ("other", b"\xff")], b"k", route="tohttp", **more
    )
    assert lab.event(id) == {
        **REQUIRED,
        **more,
        "id": id,
        "route": "tohttp",
        "datacontenttype": "application/x-thing",
        "data_base64": b64encode(ALL_BYTES).decode(),
    }


@pytest.mark.spec("KB-01", "KB-09", "KB-10", "KB-12", "KB-11")
@pytest.mark.parametrize("value", [None, b"", ALL_BYTES], ids=["null", "empty", "bytes"])
def test_binary_mode_in_and_out(lab: Lab, value: bytes | None) -> None:
    id = lab.put(value, [("content-type", b"a/b")], b"k", route="copy", subject="Zoë")
    record = lab.record(id)
    assert (record.key, record.value) == (b"k", value)
    named = {**REQUIRED, "id": id, "route": "copy", "subject": "Zoë"}
    assert headers_of(record) == {**{f"ce_{n}": v for n, v in named.items()}, "content-type": "a/b"}


@pytest.mark.spec("KB-11")
def test_a_null_value_is_no_data_and_an_empty_one_is_empty_data(lab: Lab) -> None:
    none, empty = lab.put(None, route="tohttp"), lab.put(b"", route="tohttp")
    assert lab.event(none).keys() == {*REQUIRED, "id", "route"}
    assert lab.event(empty)["data_base64"] == ""


@pytest.mark.spec("KB-02", "KB-03")
@pytest.mark.parametrize("content_type", [ONE, f"{ONE}; charset=UTF-8", "Application/CloudEvents+JSON"])
def test_structured_mode_in(lab: Lab, content_type: str) -> None:
    more = {"route": "tohttp", "subject": "Zoë", "hops": 5, "urgent": True, "data": {"a": [1.5, None]}}
    id = lab.structured(more, content_type)
    assert lab.event(id) == {**REQUIRED, **more, "id": id}


@pytest.mark.spec("KB-02", "KB-14", "KB-06")
def test_structured_mode_in_and_binary_out(lab: Lab) -> None:
    more = {"route": "copy", "hops": 5, "urgent": True, "datacontenttype": "text/plain", "data": "é"}
    id = lab.structured(more, key=b"k")
    none = lab.structured({"route": "copy"})
    record = lab.record(id)
    assert (record.key, record.value) == (b"k", "é".encode())
    headers = headers_of(record)
    assert (headers["ce_hops"], headers["ce_urgent"], headers["content-type"]) == ("5", "true", "text/plain")
    assert lab.record(none).value is None


@pytest.mark.spec("KB-03")
def test_other_content_types_are_binary_whatever_the_value_looks_like(lab: Lab) -> None:
    value = json.dumps({**REQUIRED, "id": "inner"}).encode()
    ids = [lab.put(value, h, route="copy") for h in ([], [("content-type", b"application/json")])]
    assert [lab.record(id).value for id in ids] == [value, value]


@pytest.mark.spec("KB-04")
@pytest.mark.parametrize("content_type", ["application/cloudevents+avro", "application/cloudevents+protobuf; a=b"])
def test_an_unknown_format_goes_on_as_it_is(lab: Lab, content_type: str) -> None:
    id = lab.put(ALL_BYTES, [("content-type", content_type.encode())], b"k", route="copy")
    record = lab.record(id)
    assert (record.key, record.value) == (b"k", ALL_BYTES)
    named = {**REQUIRED, "id": id, "route": "copy"}
    assert headers_of(record) == {**{f"ce_{n}": v for n, v in named.items()}, "content-type": content_type}


# -- records without an event -------------------------------------------------------------------------------------


@pytest.mark.spec("KB-05")
def test_a_record_without_an_event_goes_where_the_config_says(lab: Lab) -> None:
    before = lab.bridge("drop")["refused"]
    lab.put(b"\x00\xff", [("x-tenant", b"emea"), ("ce_type", b"t"), ("content-type", b"a/b")], b"key 1", topic="odd")
    lab.put(None, topic="odd")
    lab.put(b'{"specversion": "1.0"}', [("content-type", ONE.encode())], b"key 3", topic="odd")
    an_event = lab.put(b"x", topic="odd", tenant="emea")
    for what in ("wrap", "drop", "dead_letter"):
        assert lab.requests(what, id=an_event)
    wrapped = {e.get("subject", ""): e for e in lab.requests("wrap", 3, type="com.example.raw")}
    letters = {e.get("subject", ""): e for e in lab.requests("letters", 3, type="com.example.raw")}
    assert wrapped.keys() == letters.keys() == {"key 1", "", "key 3"}
    one = wrapped["key 1"]
    assert (
        one.items()
        >= {
            "source": f"kafka:/odd-{OUT}-{lab.client}",
            "datacontenttype": "a/b",
            "data_base64": "AP8=",
            "kafkaheaderxtenant": "emea",
            "kafkaheadercetype": "t",
        }.items()
    )
    assert datetime.fromisoformat(one["time"]).tzinfo is not None
    assert {"data", "data_base64"}.isdisjoint(wrapped[""])
    for name, letter in letters.items():
        assert letter.items() >= wrapped[name].items()
        assert (letter["tidegatestage"], letter["tidegatetrigger"]) == ("decode", "dead_letter")
    assert "required attribute" in letters["key 1"]["tidegatereason"]
    lab.gateway.wait_until(lambda: lab.bridge("drop")["refused"] == before + 3, 60, "the dropped to be counted")
