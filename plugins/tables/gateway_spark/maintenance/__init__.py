"""Maintenance of tables: merges small files, deletes old rows, shows what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SparkFault
from .model import MaintenanceRequest, MaintenanceResult, TableMaintenance, TableRef, TableStats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MaintenanceRequest", "MaintenanceResult", "TableMaintenance", "TableRef", "TableStats", "maintenance_of"]


def maintenance_of(spark: SparkSession, ref: TableRef) -> TableMaintenance:
    """The maintenance for a table, by its format."""
    match ref.format:
        case "parquet":
            from .parquet import ParquetMaintenance

            return ParquetMaintenance(spark, ref)
        case "delta":
            from .delta import DeltaMaintenance

            return DeltaMaintenance(spark, ref)
        case "iceberg":
            from .iceberg import IcebergMaintenance

            return IcebergMaintenance(spark, ref)
    raise SparkFault(f"no table format {ref.format!r}")
