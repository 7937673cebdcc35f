"""Rows of a log into a parquet table, by one Spark job in local[2]; prints one JSON line. Arguments: rows, folder."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from gateway_log.checksum import checksum
from gateway_log.reader import shard_file
from gateway_log.schema import open_shard
from gateway_spark import register
from gateway_spark.query import session
from load import DATA
from measure import cpu_s


def fill(folder: Path, rows: int) -> None:
    """A log of the bench's events."""
    folder.mkdir(parents=True, exist_ok=True)
    connection = open_shard(shard_file(folder, 0))
    attributes = '{{"specversion":"1.0","id":"{}","source":"/bench","type":"o","datacontenttype":"application/json"}}'
    data = DATA.encode()

    def row(n: int) -> tuple[object, ...]:
        received, text = 1_800_000_000_000_000_000 + n, attributes.format(n)
        return (n, received, text, data, checksum(n, received, 0, None, text.encode(), data))

    with connection:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?, ?, 0, NULL, ?, ?, ?)", map(row, range(1, rows + 1)))
        connection.execute("COMMIT")
    connection.close()


def main() -> None:
    rows, folder = int(sys.argv[1]), Path(sys.argv[2])
    fill(folder / "log", rows)
    spark = session(app="bench")
    register(spark)
    source = spark.read.format("tidegate").option("location", str(folder / "log"))
    source.load().limit(1000).write.parquet(str(folder / "warm"))
    cpu, began = cpu_s(os.getpid()), time.perf_counter()
    source.load().write.parquet(str(folder / "table"))
    took = time.perf_counter() - began
    spent = cpu_s(os.getpid()) - cpu
    count = spark.read.parquet(str(folder / "table")).count()
    spark.stop()
    print(json.dumps({"events": count, "cpu_us": spent * 1e6 / count, "events_per_s": count / took}))


if __name__ == "__main__":
    main()
