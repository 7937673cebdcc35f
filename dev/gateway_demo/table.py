"""Queries the table with Spark, like any other user. The only place that uses the Spark plugin's helper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import chart
from .accounting import TableFacts
from .flights import CANCELLED, LATE_MINUTES

_BY_CARRIER = f"""
    SELECT data.carrier AS carrier, count(*) AS flights, avg(data.dep_delay) AS mean,
           avg(CASE WHEN data.dep_delay >= {LATE_MINUTES} THEN 1.0 ELSE 0.0 END) AS late,
           avg(CASE WHEN type = '{CANCELLED}' THEN 1.0 ELSE 0.0 END) AS cancelled
    FROM flights GROUP BY 1 ORDER BY mean DESC
"""
_BY_HOUR = (
    "SELECT data.hour AS hour, count(*) AS flights, avg(data.dep_delay) AS mean FROM flights GROUP BY 1 ORDER BY 1"
)
_FACTS = "SELECT id, sha2(data_raw, 256) AS digest, shard, position FROM flights"


@dataclass(frozen=True, slots=True)
class Carrier:
    name: str
    flights: int
    mean: float | None
    late: float
    cancelled: float


@dataclass(frozen=True, slots=True)
class Hour:
    hour: int
    flights: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class Answers:
    carriers: list[Carrier]
    hours: list[Hour]
    facts: TableFacts


def ask(path: Path, picture: Path, format: str = "parquet") -> Answers:
    """Reads the table with Spark, and draws the chart."""
    from gateway_spark.query import session

    spark = session(app="tidegate-demo", delta=format == "delta")
    try:
        spark.read.format(format).load(str(path)).createOrReplaceTempView("flights")
        carriers = [
            Carrier(r.carrier, r.flights, r.mean, float(r.late), float(r.cancelled)) for r in _all(spark, _BY_CARRIER)
        ]
        hours = [Hour(r.hour, r.flights, r.mean) for r in _all(spark, _BY_HOUR)]
        columns = spark.sql(_FACTS).toArrow().to_pydict()
    finally:
        spark.stop()
    facts = TableFacts(list(zip(*(columns[c] for c in ("id", "digest", "shard", "position")), strict=True)))
    chart.draw([(c.name, c.mean or 0.0) for c in carriers], [(h.hour, h.mean or 0.0) for h in hours], picture)
    return Answers(carriers, hours, facts)


def _all(spark: Any, query: str) -> list[Any]:
    rows: list[Any] = spark.sql(query).collect()
    return rows
