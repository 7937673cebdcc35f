"""Rows from the log and from Kafka into parquet and Delta tables: our query beside the one that a user would write by
hand, all cases in turn, in one Spark session (local[2]). Arguments: rows, rounds, folder. Prints one JSON line."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from gateway_java import java
from gateway_java.kafka import KafkaBroker
from gateway_spark import register
from gateway_spark.batch import Batches
from gateway_spark.job import Job
from gateway_spark.query import environment, jars_of, settings
from gateway_spark.query_run import writer
from gateway_spark.readers.columns import ATTRIBUTES
from gateway_spark.session_conf import COMPILED, conf_of
from load import DATA
from measure import TreeCpu
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from spark_table import fill

TOPIC = "bench"
EACH = 200_000  # rows of a micro-batch
QUIET = {"spark.log.level": "ERROR"}
TARGETS = {
    f"{channel} to {kind}, ours": "<= 1.15x the CPU of by hand"
    for channel in ("log", "Kafka")
    for kind in ("parquet", "delta")
}


class Bench:
    """The session, the log and the topic that all cases read."""

    def __init__(self, rows: int, folder: Path) -> None:
        self.rows = rows
        self._folder = folder
        self._number = 0
        fill(folder / "log", rows)
        self._broker = KafkaBroker(folder / "broker", properties={"num.partitions": "4"})
        self._broker.start()
        self._produce()
        found = java.find()
        os.environ.update(environment(found))
        delta, others = jars_of(self._job("log", "delta"), found), jars_of(self._job("kafka", "parquet"), found)
        conf = conf_of(self._job("log", "delta"))
        more = {**QUIET, **{name: value for name, value in conf.items() if name not in COMPILED}}
        conf = settings(app="bench", memory="3g", delta=delta, others=others, more=more)
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        register(self.spark)
        self._cpu = TreeCpu(without=self._broker.pid or 0)
        self._cpu.start()

    def close(self) -> None:
        self._cpu.stop()
        self.spark.stop()
        self._broker.stop()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "linger.ms": 20, "acks": "all"})
        data = DATA.encode()
        for number in range(1, self.rows + 1):
            headers: list[tuple[str, str | bytes | None]] = [
                ("ce_specversion", b"1.0"),
                ("ce_id", str(number).encode()),
                ("ce_source", b"/bench"),
                ("ce_type", b"o"),
                ("content-type", b"application/json"),
            ]
            producer.produce(TOPIC, data, headers=headers)
            if number % 1000 == 0:
                producer.poll(0)
            if len(producer) > 50_000:
                producer.flush()
        producer.flush()

    def _options(self, channel: str) -> dict[str, str]:
        if channel == "log":
            return {"location": str(self._folder / "log"), "maxEventsPerTrigger": str(EACH)}
        return {
            "kafka.bootstrap.servers": self._broker.bootstrap,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(EACH),
        }

    def _job(self, channel: str, kind: str) -> Job:
        self._number += 1
        place = self._folder / f"case-{self._number}"
        options = self._options(channel)
        return Job(options, f"{place}/table", f"{place}/checkpoint", str(place), channel=channel, format=kind)

    def ours(self, channel: str, kind: str) -> int:
        """One run of the product's query, until all is read."""
        job = self._job(channel, kind)
        for name, value in COMPILED.items():
            self.spark.conf.set(name, value)
        writer(self.spark, job, Batches(job)).trigger(availableNow=True).start().awaitTermination()
        for name in COMPILED:
            self.spark.conf.unset(name)
        return self._count(job)

    def by_hand(self, channel: str, kind: str) -> int:
        """One run of the plain query."""
        job = self._job(channel, kind)
        source = "tidegate" if channel == "log" else "kafka"
        read = self.spark.readStream.format(source).options(**job.options)
        rows = read.load() if channel == "log" else plain(read.option("includeHeaders", "true").load())
        writer = rows.writeStream.format(kind).option("checkpointLocation", job.checkpoint)
        writer.trigger(availableNow=True).start(job.table).awaitTermination()
        return self._count(job)

    def _count(self, job: Job) -> int:
        return self.spark.read.format(job.format).load(job.table).count()

    def measure(self, run: Callable[[], int]) -> dict[str, Any]:
        cpu, began = self._cpu.seconds(), time.perf_counter()
        count = run()
        took, spent = time.perf_counter() - began, self._cpu.seconds() - cpu
        if count != self.rows:
            raise RuntimeError(f"{count} rows instead of {self.rows}")
        shutil.rmtree(self._folder / f"case-{self._number}")
        return {"events": count, "cpu_us": spent * 1e6 / count, "events_per_s": count / took}


def plain(records: DataFrame) -> DataFrame:
    """What one would write by hand to have these columns: headers to columns, and nothing is checked."""
    h = f.map_from_entries("headers")
    header = {name: h[f"ce_{name}"].cast("string") for name in ATTRIBUTES}
    header["datacontenttype"] = h["content-type"].cast("string")
    header["time"] = header["time"].cast("timestamp")
    known = [*(f"ce_{name}" for name in ATTRIBUTES), "content-type", "traceparent", "tracestate"]
    return records.select(
        *(column.alias(name) for name, column in header.items()),
        f.map_filter(h, lambda k, _: ~k.isin(known)).cast("map<string,string>").alias("extensions"),
        f.col("value").alias("data"),
        f.when(header["datacontenttype"] == "application/json", f.col("value").cast("string")).alias("data_text"),
        "key",
        f.col("partition").alias("shard"),
        f.col("offset").alias("position"),
        f.col("timestamp").alias("received"),
        f.split(h["traceparent"].cast("string"), "-")[1].alias("trace_id"),
    )


def main() -> None:
    rows, rounds, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    bench = Bench(rows, folder)
    cases: dict[str, Callable[[], int]] = {}
    for channel in sys.argv[4:] or ("log", "kafka"):
        for kind in ("parquet", "delta"):
            name = f"{'Kafka' if channel == 'kafka' else channel} to {kind}"
            cases[f"{name}, by hand"] = lambda r=channel, k=kind: bench.by_hand(r, k)
            cases[f"{name}, ours"] = lambda r=channel, k=kind: bench.ours(r, k)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    try:
        for number in range(rounds + 1):
            for name, case in cases.items():
                result = bench.measure(case)
                print(f"round {number} {name}: {result['cpu_us']:.1f} us", file=sys.stderr, flush=True)
                if number:  # the first is for the JVM's compiler
                    runs[name].append(result)
    finally:
        bench.close()
    print(json.dumps(runs))


if __name__ == "__main__":
    main()
