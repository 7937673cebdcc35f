"""Examines a batch before it is written: its event types, and the structure of their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tables.table import FAULT
from .evolution import MAX_FIELDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from .schemas import Schemas

_SHORTEST = len('"k":1,')  # characters of a field
Sample = tuple[int, str | None]
"""The number of events with a JSON object as data, and the result of `schema_of_variant_agg` for those."""


def sample(events: DataFrame) -> Sample:
    """Examines the data of all events in one pass."""
    from pyspark.sql import functions as f

    row = events.where(f.col(FAULT).isNull()).select(_objects()).agg(*_measures()).head()
    assert row is not None
    return row[0], row[1]


def sample_by_type(events: DataFrame, schemas: Schemas, number: int, most: int) -> dict[str | None, Sample]:
    """Samples by event type, in one pass; None stands for rows that are not events. Types with a table come first, then
    others by name, at most `most` and one more. Data is examined only if a schema has to be inferred."""
    from pyspark.sql import functions as f

    tables = list(schemas.tables())
    wanted = schemas.needs_any_sample(number)
    group = f.when(f.col(FAULT).isNull(), f.col("type")).alias("type")
    rows = events.select(group, _objects() if wanted else f.lit(None).cast("string").alias("object"))
    order = [f.col("type").isNull().desc(), f.col("type").isin(tables).desc(), f.col("type")]
    measures = _measures() if wanted else [f.lit(0), f.lit(None).cast("string")]
    found = rows.groupBy("type").agg(*measures).orderBy(*order).limit(most + 2).collect()
    return {r[0]: (r[1], r[2]) for r in found}


def _objects() -> Column:
    from pyspark.sql import functions as f

    text = f.col("data_text")
    # objects with values as keys would use up the fields of all other events
    wide = (f.length(text) > _SHORTEST * MAX_FIELDS) & (f.size(f.json_object_keys(text)) > MAX_FIELDS)
    is_object = f.ltrim(text, f.lit(" \t\r\n")).startswith("{")
    return f.when(is_object & f.when(wide, f.lit(False)).otherwise(f.lit(True)), text).alias("object")


def _measures() -> list[Column]:
    from pyspark.sql import functions as f

    return [f.count("object"), f.expr("schema_of_variant_agg(try_parse_json(object))")]
