"""Reading a Kafka channel: gives the same rows as reading the log, and no record in a topic stops it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from gateway_java import java
from gateway_java.kafka import KafkaBroker
from gateway_kafka.config import KafkaChannelConfig
from gateway_kafka.java_options import properties
from gateway_kafka.records import Written, writer
from gateway_spark.batch import Batches
from gateway_spark.job import Job
from gateway_spark.query_run import writer as query_writer
from gateway_spark.readers import SAMPLE_EVERY, KafkaBatches
from gateway_spark.readers.kafka import NOT_PLAIN, AnyRows, PlainRows
from gateway_spark.readers.plain_record import PlainRecord
from pyspark.errors import PySparkException

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, CodecRef, KeyMapperRef
from gateway_core.contract.event import Event
from tests.kafka_broker import producer
from tests.kafka_secure import PASSWORD, USER, SecureKafka

pytestmark = [pytest.mark.spec("CARD-03"), pytest.mark.timeout(600)]

COLUMNS = (
    *("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "extensions"),
    *("data", "data_text", "key", "trace_id"),
)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
JSON = "application/json"
TIMES = (
    *("2026-01-31T08:00:00Z", "2026-01-31t08:00:00.5z", "2016-12-31T23:59:60.25Z", "2024-02-29T23:59:59+14:00"),
    *("2026-01-31T08:00:00.123456789-08:30", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1066-10-14T09:00:00Z"),
)


def context() -> BuildContext:
    return BuildContext("test", Path(), SystemClock(), Registry.installed(), broker="default")


def binary_events(event: Callable[..., Event]) -> list[Event]:
    """Events that binary mode has to carry."""
    return [
        event("plain", b'{"a": 1.0}', datacontenttype=JSON, subject="LH400", dataschema="https://example.com/s"),
        event("charset", '{"a": "ü"}'.encode(), datacontenttype="application/vnd.x+json; charset=utf-8"),
        event("text", b"{}", datacontenttype="text/plain"),
        event("not utf-8", b"\xff\x00", datacontenttype=JSON),
        event("no data", None),
        event("empty", b""),
        event("big", b'"' + b"x" * 900_000 + b'"', datacontenttype=JSON),
        event("key", b"", key=b"\x00\xff"),
        event("one", region="eu-west", traceparent=TRACE),
        event("many", **{f"x{n}": str(n) for n in range(9)}),
        event("ü 🛫", region="Zürich", source="/ü%20#x"),
        event("quotes\"'\\", x='a\\nb, c; d="e"', empty=""),
        *(event(f"time {n}", time=text) for n, text in enumerate(TIMES)),
        event("0.3", b"{}", specversion="0.3", schemaurl="/s", datacontenttype=JSON),
        event("0.2", b"{}", specversion="0.2", contenttype=JSON, n="5", quoted='"q"'),
    ]


def structured_events(event: Callable[..., Event]) -> list[Event]:
    """Events that structured mode has to carry."""
    nested = b'{"a" : [1.0, 1e3, {"b":"}]\\u00e9\\""}], "data": null, "big": 12345678901234567890}'
    return [
        event("nested", nested, datacontenttype=JSON, after="a},", z='b]}"'),
        event("no type", nested, json_data=True),
        event("string", b'"\\u00e9\\/\\"}"', datacontenttype=JSON),
        event("number", b"1.50", json_data=True),
        event("null", b"null", json_data=True),
        event("text", "ü\n".encode(), datacontenttype="text/plain"),
        event("bytes", b"\x00\xff", datacontenttype="image/png"),
        event("no data", None, n=5, yes=True, time=TIMES[0]),
        event("ü", b"[]", json_data=True, region="Zürich"),
        event("big", b'{"x": "' + b"x" * 900_000 + b'"}', datacontenttype=JSON),
    ]


def foreign_records() -> list[tuple[Written, str]]:
    """Records that hold no event, and what is said of each."""
    binary = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"made")]
    json_header = [("content-type", b"application/cloudevents+json")]
    start = '{"specversion":"1.0","id":"1","source":"/s","type":"t"'

    def of(*more: tuple[str, bytes], without: str = "") -> Written:
        return None, b"{}", [h for h in binary if h[0] != without] + list(more)

    def body(text: str) -> Written:
        return b"k", text.encode(), json_header

    return [
        ((None, b"\xff", []), "specversion is missing"),
        ((None, None, [("note", b"a"), ("note", b"b")]), "specversion is missing"),
        (of(without="ce_id"), "id is missing"),
        (of(("ce_id", b"2")), "header ce_id appears more than once"),
        (of(("ce_subject", b"")), "subject is there but empty"),
        (of(("ce_subject", b"\xff")), "header ce_subject is not UTF-8"),
        (of(("ce_subject", b"\x07")), "subject contains a character"),
        (of(("ce_time", b"2026-02-29T00:00:00Z")), "time '2026-02-29T00:00:00Z' is not an RFC 3339"),
        (of(("ce_dataschema", b"/x")), "dataschema '/x' is not an absolute URI"),
        (of(("ce_a-b", b"1")), "'a-b' is not an attribute name"),
        (of(("ce_data", b"1")), "'data' is not an attribute name"),
        (of(("ce_", b"1")), "names no attribute"),
        (of(("content-type", b"json")), "datacontenttype 'json' is not a media type"),
        ((None, b"{}", [("ce_specversion", b"2.0"), *binary[1:]]), "unknown specversion '2.0'"),
        ((None, None, json_header), "needs a value"),
        (body("[]"), "not a JSON object"),
        (body(start), "not a JSON object"),
        (body(start + "} x"), "not a JSON object"),
        (body(start + ',"data":{"a":NaN}}'), "not a JSON object"),
        (body(start + ',"id":"2"}'), "more than once"),
        (body(start + ',"n":1.5}'), "not a string, a whole number or a boolean"),
        (body(start + ',"datacontenttype":"text/plain","data":5}'), "data is not a string"),
        (body(start + ',"data_base64":"A"}'), "Base64"),
        (body(start + ',"data_base64":"AA==","data":1}'), "both there"),
        (of(("ce_y\nce_z", b"1")), "'y\nce_z' is not an attribute name"),
        (of(("ce_x", b"1\n2")), "the value of x contains a character"),
    ]


def produce(bootstrap: str, topic: str, records: Iterable[Written]) -> None:
    writing = producer(bootstrap)
    for key, value, headers in records:
        writing.produce(topic, value, key, 0, headers=list(headers))
    assert writing.flush(60) == 0


def written(events: Iterable[Event], mode: str) -> list[Written]:
    """The records that the gateway's channel makes of events."""
    write = writer(CodecRef("cloudevents", {"mode": mode}, None), KeyMapperRef("record"), context())
    return [write(event) for event in events]


def topic_of(broker: KafkaBroker, records: Sequence[Written]) -> str:
    topic = f"spark-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, 1)
    produce(broker.bootstrap, topic, records)
    return topic


def records_of(spark: Any, topic: str, config: KafkaChannelConfig) -> Any:
    options = {f"kafka.{name}": value for name, value in properties(config).items()}
    read = spark.read.format("kafka").options(**options, subscribe=topic, includeHeaders="true")
    return read.load()


def cells(found: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in sorted(found, key=lambda row: row.position)]


@pytest.mark.area(name="spark_kafka_rows")
def test_rows_are_those_of_the_log_and_what_is_no_event_says_why(
    spark: Any, kafka: KafkaBroker, log: Any, event: Callable[..., Event]
) -> None:
    binary, structured, foreign = binary_events(event), structured_events(event), foreign_records()
    log.append(*binary, *structured)
    by_log = spark.read.format("tidegate").option("location", str(log.folder))
    records = [*written(binary, "binary"), *written(structured, "structured"), *(r for r, _ in foreign)]
    records.append((None, b"", [*records[0][2], ("traceparent", TRACE.encode()), ("tracestate", b"a=b")]))
    # no attributes, and the same but for the three characters where others have `ce_`
    records.append((None, b"", [*records[-1][2], ("app-id", b"1"), ("msg-id", b"2")]))
    topic = topic_of(kafka, records)
    raw = records_of(spark, topic, KafkaChannelConfig(bootstrap=[kafka.bootstrap])).cache()

    found = AnyRows().of(raw).collect()
    events = [row for row in found if row.fault is None]
    assert cells(events[:-2]) == cells(by_log.load().collect())
    assert [(event.trace_id, event.extensions) for event in events[-2:]] == [(TRACE[3:35], {})] * 2
    assert [(row.shard, row.position) for row in found] == [(0, n) for n in range(len(records))]
    refused = [row for row in found if row.fault is not None]
    for row, ((key, value, headers), words) in zip(refused, foreign, strict=True):
        assert words in row.fault
        assert (row.id, row.key and bytes(row.key), row.data and bytes(row.data)) == (None, key, value or None)
        assert row.extensions.keys() == dict(headers).keys()
    assert refused[1].extensions == {"note": "b"}
    assert refused[5].extensions["ce_subject"] == "/w=="  # what is no text is there in Base64

    matched = {"exact": {"type": "made", "id": "plain"}}
    for filters in (
        [matched],
        [{"prefix": {"id": "time"}}, {"suffix": {"time": "Z"}}],
        [{"any": [matched, {"all": [{"exact": {"region": "Zürich"}}, {"not": {"exact": {"absent": "1"}}}]}]}],
        [{"not": {"prefix": {"subject": "LH"}}}, {"exact": {"specversion": "1.0"}}],
        [{"cesql": "n > 4 OR id LIKE 't%'"}, {"not": {"exact": {"id": "text"}}}],
        [{"any": [{"cesql": "EXISTS region"}, matched]}],
    ):
        text = json.dumps(filters)
        passed = AnyRows(text).of(raw).where("trace_id IS NULL OR id != 'plain'").collect()
        wanted = [row.id for row in by_log.option("filters", text).load().orderBy("position").collect()]
        assert wanted
        assert [row.id for row in passed if row.fault is None] == wanted, filters
        assert len([row for row in passed if row.fault]) == len(foreign)
    some = AnyRows("", json.dumps({"region": "", "type": "made"})).of(raw).where("fault IS NULL").collect()
    assert [row.id for row in some] == ["one", "ü 🛫", "ü"]

    plain = raw.where(PlainRecord().is_plain)
    by_place = {row.position: row for row in found}
    quick = PlainRows().of(plain).collect()
    assert quick == [by_place[row.position] for row in quick]
    assert len(quick) == plain.count() > 15
    assert {"plain", "charset", "not utf-8", "no data", "one", f"time {len(TIMES) - 1}"} <= {row.id for row in quick}
    for filter, wanted in (({"exact": {"id": "one"}}, ["one"]), ({"not": {"prefix": {"type": "m"}}}, [])):
        assert [row.id for row in PlainRows(json.dumps([filter])).of(plain).collect()] == wanted
        with pytest.raises(PySparkException, match=NOT_PLAIN):  # whatever the filter says of it
            PlainRows(json.dumps([filter])).of(raw).collect()
    for row in found[-4:]:
        if row.position not in {other.position for other in quick}:
            with pytest.raises(PySparkException, match=NOT_PLAIN):
                PlainRows().of(raw.where(f"offset = {row.position}")).collect()
    raw.unpersist()


def test_batches_are_read_the_quick_way_while_all_records_are_plain(
    spark: Any, kafka: KafkaBroker, event: Callable[..., Event]
) -> None:
    config = KafkaChannelConfig(bootstrap=[kafka.bootstrap])
    topic = topic_of(kafka, written([event("1"), event("2"), event("ü", subject="ü")], "binary"))
    mixed = records_of(spark, topic, config).cache()
    plain = mixed.where("offset < 2")
    reading = KafkaBatches(Job({}, "/table", "/checkpoint", "/home", channel="kafka"))

    def ways(batch: Any, number: int) -> list[str]:
        """How the batch was read, one way after the other; all its rows have to be there after the last."""
        seen: list[str] = []

        def write(found: Any, good: bool) -> None:
            quick = NOT_PLAIN in found._jdf.queryExecution().analyzed().toString()
            seen.append("quick" if quick else "any")
            if quick or number == 6:
                assert [r.id for r in found.collect()] == (["1", "2"] if batch is plain else ["1", "2", "ü"])

        reading.each(batch, number, write)
        return seen

    assert ways(plain, 5) == ["quick"]
    assert ways(mixed, 6) == ["quick", "any"]
    assert ways(plain, 7) == ["any"]
    assert ways(mixed, 6 + SAMPLE_EVERY) == ["any"]
    assert ways(plain, 7 + SAMPLE_EVERY) == ["any"]
    assert ways(plain, 6 + 2 * SAMPLE_EVERY) == ["quick"]

    def fail(found: Any, good: bool) -> None:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        reading.each(plain, 7 + 2 * SAMPLE_EVERY, fail)
    mixed.unpersist()


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"table": "{type}", "data_schema": {"*": "infer"}}, marks=pytest.mark.full)],
    ids=["one", "types"],
)
@pytest.mark.area(name="spark_more")
def test_a_record_that_is_not_plain_among_plain_ones_stops_nothing(
    spark: Any, kafka: KafkaBroker, event: Callable[..., Event], tmp_path: Path, options: dict[str, Any]
) -> None:
    events = [event(f"{n}", b'{"n": 1}', datacontenttype=JSON) for n in range(9)]
    records = written(events, "binary")
    records[4] = (None, b"no event", [])
    records[6] = written([events[6]], "structured")[0]
    topic = topic_of(kafka, records)
    chosen = {**options, "table": str(tmp_path / "tables" / options.get("table", "made"))}
    source = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    job = Job(
        options={**source, "maxOffsetsPerTrigger": "3"},
        checkpoint=str(tmp_path / "c"),
        home=str(tmp_path),
        **{"channel": "kafka", "quarantine": str(tmp_path / "quarantine"), **chosen},
    )
    batches = Batches(job)
    query_writer(spark, job, batches).trigger(availableNow=True).start().awaitTermination()
    good = spark.read.parquet(str(tmp_path / "tables" / "made"))
    assert sorted(row.id for row in good.select("id").collect()) == [str(n) for n in range(9) if n != 4]
    (bad,) = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path / "quarantine")).collect()
    assert (bad.position, bytes(bad.data)) == (4, b"no event")
    assert batches.quarantined == 1


@pytest.mark.full
def test_spark_logs_in_as_the_gateway_does(spark: Any, secure_kafka: SecureKafka, event: Callable[..., Event]) -> None:
    topic = topic_of(secure_kafka.broker, written([event("1")], "binary"))
    tls: dict[str, Any] = {"ca_file": secure_kafka.ca_file}
    user = {"username": USER, "password": PASSWORD}
    client = secure_kafka.client
    certificate: dict[str, Any] = {"cert_file": client.cert_file, "key_file": client.key_file}
    if java.find().version >= 21:  # Java 17 knows no PBES2, which is how keys are encrypted today
        certificate |= {"key_file": client.encrypted_key_file, "key_password": client.key_password}
    for options in (
        {"bootstrap": secure_kafka.plain, "tls": tls, "sasl": {"mechanism": "PLAIN", **user}},
        {"bootstrap": secure_kafka.scram_512, "sasl": {"mechanism": "SCRAM-SHA-512", **user}},
        {"bootstrap": secure_kafka.mutual_tls, "tls": {**tls, **certificate}},
        {"bootstrap": secure_kafka.other_host, "tls": {**tls, "verify_host": False}},
    ):
        config = KafkaChannelConfig.model_validate(options)
        assert [row.id for row in AnyRows().of(records_of(spark, topic, config)).collect()] == ["1"], options
