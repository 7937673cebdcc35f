"""`tidegate.spark`: what PySpark users call."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess
from tidegate import spark as tide

from tests import web

GATEWAY = 'brokers: {{default: {{ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]{}}}}}\ntriggers: {{}}\n'
FLIGHT = "carrier STRING, delay INT"


@pytest.mark.usefixtures("processes")
def test_the_command_needs_no_pyspark_and_no_other_module_hides_the_package() -> None:
    code = "import sys, tidegate, gateway_core.cli; print(tidegate.__file__, 'pyspark' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [str(Path(found[0]).parent), *found[1:]] == [str(Path(tide.__file__).parent), "False"]


def test_events_of_a_log_typed_and_filtered(spark: Any, log: Any, event: Callable[..., Any]) -> None:
    kind = {"datacontenttype": "application/json"}
    log.append(
        event("good", b'{"carrier": "AA", "delay": 7, "more": 1}', **kind),
        event("none", None, **kind),
        event("unfit", b'{"carrier": "AA", "delay": "long"}', **kind),
        event("other", b"{}", type="other", **kind),
    )
    plain = tide.events(spark, str(log.folder), filter={"type": "made"})
    assert "fault" not in plain.columns
    assert {r.id: r.data for r in plain.collect()}["good"] == b'{"carrier": "AA", "delay": 7, "more": 1}'

    frame = tide.events(spark, str(log.folder), data_schema=FLIGHT, filters=[{"exact": {"type": "made"}}])
    rows = {r.id: r for r in frame.collect()}
    assert set(rows) == {"good", "none", "unfit"}
    assert rows["good"].data.asDict() == {"carrier": "AA", "delay": 7}
    assert rows["good"].data_raw == b'{"carrier": "AA", "delay": 7, "more": 1}'
    assert (rows["none"].data, rows["none"].fault, rows["good"].fault) == (None, None, None)
    assert "does not fit" in rows["unfit"].fault
    assert tide.events(spark, str(log.folder), startingOffsets='{"0": 4}').count() == 1
    with pytest.raises(ValueError, match="no type NUMBER"):
        tide.typed(plain, "delay NUMBER")


def test_a_stream_has_the_same_rows(spark: Any, log: Any, event: Callable[..., Any]) -> None:
    log.append(*(event(str(n), b'{"delay": %d}' % n, datacontenttype="application/json") for n in range(5)))
    stream = tide.stream(spark, str(log.folder), data_schema=FLIGHT, filters=[{"not": {"exact": {"id": "3"}}}])
    assert stream.isStreaming
    query = stream.writeStream.format("memory").queryName("helpers").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert sorted(r.data.delay for r in spark.table("helpers").collect()) == [0, 1, 2, 4]


def test_a_table_is_read_as_its_sink_wrote_it(spark: Any, tmp_path: Path) -> None:
    from gateway_spark.errors import SparkFault

    spark.range(3).write.format("delta").save(str(tmp_path / "t"))
    assert tide.table(spark, str(tmp_path / "t"), "delta").count() == 3
    with pytest.raises(SparkFault, match="there is no parquet table"):
        tide.table(spark, str(tmp_path / "none"))


def test_any_rows_become_events_and_come_back(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    when = datetime.datetime(2026, 1, 2, 3, 4, 5)
    ddl = "number string, carrier string, delay int, at timestamp, plane string, gate string"
    df = spark.createDataFrame([("7", "AA", 90, when, "N1", None), ("8", "UA", None, when, None, "B")], ddl)
    events = tide.to_events(
        df,
        "/alarms",
        "late",
        id="number",
        time="at",
        subject=f.coalesce("plane", f.lit("?")),
        extensions={"gate": "gate"},
    )
    with GatewayProcess(GATEWAY.format(""), tmp_path) as g:
        events.write.format("tidegate").option("url", g.ingress()).mode("append").save()
        back = tide.events(
            spark, str(g.data_dir / "log/default"), data_schema="carrier STRING, delay INT, plane STRING"
        )
        rows = back.orderBy("id").collect()
    assert [(r.id, r.source, r.type, r.subject, r.time) for r in rows] == [
        ("7", "/alarms", "late", "N1", when),
        ("8", "/alarms", "late", "?", when),
    ]
    assert [tuple(r.data) for r in rows] == [("AA", 90, "N1"), ("UA", None, None)]
    assert [r.extensions for r in rows] == [{}, {"gate": "B"}]
    assert json.loads(rows[1].data_raw) == {"carrier": "UA"}


def test_ids_are_random_for_a_batch_and_must_be_given_for_a_stream(spark: Any, log: Any) -> None:
    ids = [r.id for r in tide.to_events(spark.range(100), "/s", "t").collect()]
    assert len(set(ids)) == 100
    assert tide.to_events(spark.range(1), "/s", "t", data=[]).columns == ["id", "source", "type"]
    stream = tide.stream(spark, str(log.folder))
    with pytest.raises(ValueError, match="a stream of events needs `id`"):
        tide.to_events(stream, "/s", "t")
    assert tide.to_events(stream, "/s", "t", id="id", data=["subject"]).isStreaming


@pytest.mark.area(name="spark_more")
def test_events_of_a_kafka_channel(spark: Any, kafka: KafkaBroker, tmp_path: Path) -> None:
    channel = f"{{kafka: {{bootstrap: '{kafka.bootstrap}', topic: helpers}}}}"
    with GatewayProcess(GATEWAY.format(f", channel: {channel}"), tmp_path) as g:
        for n in range(3):
            head = {"ce-specversion": "1.0", "ce-id": str(n), "ce-source": "/s", "ce-type": "t"}
            body = b'{"delay": %d}' % n
            answer = web.post(
                g.ingress(), headers={**head, "content-type": "application/json"}, content=body, verify=False
            )
            assert answer.status_code == 202
    frame = tide.from_kafka(spark, kafka.bootstrap, "helpers", data_schema=FLIGHT)
    assert sorted((r.id, r.data.delay, r.fault) for r in frame.collect()) == [
        ("0", 0, None),
        ("1", 1, None),
        ("2", 2, None),
    ]
    stream = tide.from_kafka(spark, kafka.bootstrap, "helpers", streaming=True)
    query = stream.writeStream.format("memory").queryName("from_kafka").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert sorted(r.id for r in spark.table("from_kafka").collect()) == ["0", "1", "2"]
