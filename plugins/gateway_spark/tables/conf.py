"""Settings of a Spark session that tables of a format need. Plain data: a submitted job has them as well."""

from __future__ import annotations

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# Delta reads a table's log by 50 tasks unless told otherwise: seconds, where there are two cores.
_DELTA_LOCAL = {"spark.databricks.delta.snapshotPartitions": "2"}


def conf_of_format(format: str, master: str) -> dict[str, str]:
    """The settings for a table format where Spark runs at `master`."""
    if format != "delta":
        return {}
    return {**_DELTA, **(_DELTA_LOCAL if master.startswith("local") else {})}
