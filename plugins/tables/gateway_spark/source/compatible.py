"""Differences between PySpark 4.1 and 4.2."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark tells a source where a batch starts and how much it may read (from 4.2 on)."""
__all__ = ["LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow", "arrow_schema"]

if TYPE_CHECKING or LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:

    class ReadLimit: ...

    class ReadAllAvailable(ReadLimit): ...

    @dataclass
    class ReadMaxRows(ReadLimit):
        max_rows: int

    class SupportsTriggerAvailableNow: ...


def arrow_schema(schema: StructType) -> pa.Schema:
    """Arrow's form of a schema; times are in UTC."""
    return to_arrow_schema(schema, timezone="UTC") if LIMITS else to_arrow_schema(schema)
