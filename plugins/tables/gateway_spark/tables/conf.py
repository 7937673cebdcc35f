"""Settings of a Spark session for table formats. Plain data: a submitted job uses them as well."""

from __future__ import annotations

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# By default, Delta reads a table's log with 50 tasks and finds old files with 10,000. On two cores that takes seconds
# and half a minute, mostly to start the tasks.
_DELTA_LOCAL = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
# Tables in folders are read through this catalog; the default would be Hive's, which is not used here.
_DEFAULT = "spark.sql.catalog.default_iceberg"
_ICEBERG = {
    _DEFAULT: "org.apache.iceberg.spark.SparkCatalog",
    f"{_DEFAULT}.type": "hadoop",
    f"{_DEFAULT}.warehouse": "spark-warehouse",
    f"{_DEFAULT}.cache-enabled": "false",
}


def conf_of_format(format: str, master: str) -> dict[str, str]:
    """The settings for a table format with Spark at `master`."""
    match format:
        case "delta":
            return {**_DELTA, **(_DELTA_LOCAL if master.startswith("local") else {})}
        case "iceberg":
            return dict(_ICEBERG)
    return {}
