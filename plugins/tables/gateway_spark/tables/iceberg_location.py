"""The location of an Iceberg table: a folder, or a name in a catalog of the session's settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..data.types import Type
from ..errors import SparkFault
from .owner import CATALOG, catalog_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MISSING = (
    "Iceberg has no connector for Spark {} yet; use PySpark 4.1 (pip install 'pyspark==4.1.*') or the format delta"
)
NOT_HERE = "this Spark session has no Iceberg: start it with gateway_spark.session(iceberg=True)"
LINE = "4.1"


def check(spark: SparkSession) -> None:
    """Raises `SparkFault` if the session has no Iceberg."""
    if type(_jvm(spark).org.apache.iceberg.spark.SparkSchemaUtil).__name__ == "JavaPackage":
        line = ".".join(spark.version.split(".")[:2])
        raise SparkFault(NOT_HERE if line == LINE else MISSING.format(line))


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


class IcebergLocation:
    """A location for a table. Raises `SparkFault` if the session has no Iceberg."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        check(spark)
        self.jvm = _jvm(spark)
        self._spark = spark
        self._session: Any = spark._jsparkSession
        self.name = location.removeprefix(CATALOG) if location.startswith(CATALOG) else ""
        if not self.name and catalog_of(location, lambda key: spark.conf.get(key, None) is not None):
            self.name = location
        self.path = "" if self.name else location
        self.convert: Any = self.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert

    def hadoop_conf(self) -> Any:
        """The session's settings for file systems."""
        return self._session.sessionState().newHadoopConf()

    def load(self) -> Any:
        """The current table, or None if there is none."""
        if self.path:
            tables = self._tables()
            return tables.load(self.path) if tables.exists(self.path) else None
        catalog, identifier = self._catalog()
        if not catalog.tableExists(identifier):
            return None
        table = catalog.loadTable(identifier)
        table.refresh()
        return table

    def create(self, schema: Any, spec: Any, order: Any, properties: Mapping[str, str]) -> Any:
        """Creates the table."""
        chosen = self.jvm.java.util.HashMap()
        for key, value in properties.items():
            chosen.put(key, value)
        if self.path:
            return self._tables().create(schema, spec, order, chosen, self.path)
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.name.rpartition('.')[0]}")
        catalog, identifier = self._catalog()
        builder = catalog.buildTable(identifier, schema).withPartitionSpec(spec).withSortOrder(order)
        return builder.withProperties(chosen).create()

    def schema(self, columns: Type) -> Any:
        """Iceberg's schema for these columns."""
        return self.convert(self._session.parseDataType(json.dumps(columns)))

    def read(self, part: str = "") -> DataFrame:
        """The rows of the table, or of one of its metadata tables ("files")."""
        if self.name:
            return self._spark.table(f"{self.name}.{part}" if part else self.name)
        return self._spark.read.format("iceberg").load(f"{self.path}#{part}" if part else self.path)

    def append(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Adds rows in one commit."""
        if self.name:
            rows.writeTo(self.name).options(**options).append()
        else:
            rows.write.format("iceberg").mode("append").options(**options).save(self.path)

    def _tables(self) -> Any:
        return self.jvm.org.apache.iceberg.hadoop.HadoopTables(self.hadoop_conf())

    def _catalog(self) -> tuple[Any, Any]:
        """The catalog and the table's identifier there."""
        first, _, rest = self.name.partition(".")
        catalog = self.jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(self._session, first)
        return catalog, self.jvm.org.apache.iceberg.catalog.TableIdentifier.parse(rest)
