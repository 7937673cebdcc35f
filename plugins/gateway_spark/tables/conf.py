"""Settings of a Spark session that tables of a format need. Plain data: a submitted job has them as well."""

from __future__ import annotations

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# Unless told otherwise, Delta reads a table's log by 50 tasks and looks for old files by 10,000: where there are two
# cores that takes seconds and half a minute, mostly for starting tasks.
_DELTA_LOCAL = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
# A folder's table is read through this catalog; by default it would be Hive's, of which nothing is used.
_DEFAULT = "spark.sql.catalog.default_iceberg"
_ICEBERG = {
    _DEFAULT: "org.apache.iceberg.spark.SparkCatalog",
    f"{_DEFAULT}.type": "hadoop",
    f"{_DEFAULT}.warehouse": "spark-warehouse",
    f"{_DEFAULT}.cache-enabled": "false",
}


def conf_of_format(format: str, master: str) -> dict[str, str]:
    """The settings for a table format where Spark runs at `master`."""
    match format:
        case "delta":
            return {**_DELTA, **(_DELTA_LOCAL if master.startswith("local") else {})}
        case "iceberg":
            return dict(_ICEBERG)
    return {}
