"""Runs streaming queries that fill Iceberg tables, in a session of PySpark 4.1, as its standard input says: for
`test_spark_iceberg_owner.py`. A line in and a line out are JSON: `[name of a method, argument...]`, and `{"is": …}` or
`{"fault": …}` or `{"error": …}`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from gateway_spark.batch import Batches
from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from gateway_spark.maintenance import MaintenanceRequest, TableRef, maintenance_of
from gateway_spark.query import session
from gateway_spark.query_run import writer
from gateway_spark.tables import read
from gateway_spark.tables.iceberg_location import IcebergLocation


class Commands:
    """Each public method is a command."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._made: list[tuple[Any, Batches]] = []
        self._started: dict[int, Any] = {}

    def make(self, job: str) -> int:
        parsed = Job.parse(job.encode())
        batches = Batches(parsed)
        self._made.append((writer(self._spark, parsed, batches).trigger(processingTime="0 seconds"), batches))
        return len(self._made) - 1

    def start(self, number: int) -> None:
        self._started[number] = self._made[number][0].start()

    def drain(self, number: int) -> None:
        self._started[number].processAllAvailable()

    def stop(self, number: int) -> list[str]:
        self._started[number].stop()
        return self._made[number][1].notes

    def ids(self, location: str) -> list[int]:
        return sorted(int(r.id) for r in read(self._spark, "iceberg", location).select("id").collect())

    def expire(self, location: str) -> None:
        """Compacts a table, and forgets all snapshots but that."""
        maintenance_of(self._spark, TableRef(location, "iceberg")).compact(MaintenanceRequest(1 << 20))
        now = self._spark._jvm.System.currentTimeMillis()
        IcebergLocation(self._spark, location).load().expireSnapshots().expireOlderThan(now).retainLast(1).commit()

    def forget(self, location: str) -> None:
        """Takes the owner and the positions out of a table in a folder."""
        folder = Path(location, "metadata")
        name = f"v{(folder / 'version-hint.text').read_text().strip()}.metadata.json"
        (folder / f".{name}.crc").unlink(missing_ok=True)
        found = json.loads((folder / name).read_bytes())
        for place in (found["properties"], *(snapshot["summary"] for snapshot in found["snapshots"])):
            for lost in ("tidegate.owner", "tidegate.first", "tidegate.end"):
                place.pop(lost, None)
        (folder / name).write_text(json.dumps(found))


def main() -> None:
    out, lake, conf = os.dup(1), sys.argv[1], json.loads(sys.argv[2])
    os.dup2(2, 1)  # what Spark prints is no answer
    catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": lake}
    conf |= {f"spark.sql.catalog.lake{key}": value for key, value in catalog.items()}
    spark = session(conf=conf, iceberg=True)
    commands = Commands(spark)
    for line in sys.stdin.buffer:
        name, *arguments = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"is": getattr(commands, name)(*arguments)}
        except SparkFault as e:
            answer = {"fault": str(e)}
        except Exception as e:
            answer = {"error": str(e)}
        os.write(out, json.dumps(answer).encode() + b"\n")
    spark.stop()


if __name__ == "__main__":
    main()
