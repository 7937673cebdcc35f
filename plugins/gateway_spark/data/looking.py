"""Looking at a batch before it is written: which types there are, and what their data is like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tables import FAULT
from .evolution import MAX_FIELDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from .schemas import Schemas

_SHORTEST = len('"k":1,')  # characters of a field
Look = tuple[int, str | None]
"""How many events have a JSON object as data, and what `schema_of_variant_agg` says of those."""


def look(events: DataFrame) -> Look:
    """One pass over the data of all events."""
    from pyspark.sql import functions as f

    row = events.where(f.col(FAULT).isNull()).select(_objects()).agg(*_measures()).head()
    assert row is not None
    return row[0], row[1]


def look_by_type(events: DataFrame, schemas: Schemas, number: int, most: int) -> dict[str | None, Look]:
    """By event type, in one pass; None stands for rows that are no event. Types that have a table come first, then
    others by name, up to `most` and one more. The data are looked at where a schema is to be found in them."""
    from pyspark.sql import functions as f

    tables = list(schemas.tables())
    wanted = schemas.looks_at_any(number)
    group = f.when(f.col(FAULT).isNull(), f.col("type")).alias("type")
    rows = events.select(group, _objects() if wanted else f.lit(None).cast("string").alias("object"))
    order = [f.col("type").isNull().desc(), f.col("type").isin(tables).desc(), f.col("type")]
    measures = _measures() if wanted else [f.lit(0), f.lit(None).cast("string")]
    found = rows.groupBy("type").agg(*measures).orderBy(*order).limit(most + 2).collect()
    return {r[0]: (r[1], r[2]) for r in found}


def _objects() -> Column:
    from pyspark.sql import functions as f

    text = f.col("data_text")
    # keys that are values, as many as there are, would leave no room for the fields of all other events
    wide = (f.length(text) > _SHORTEST * MAX_FIELDS) & (f.size(f.json_object_keys(text)) > MAX_FIELDS)
    is_object = f.ltrim(text, f.lit(" \t\r\n")).startswith("{")
    return f.when(is_object & f.when(wide, f.lit(False)).otherwise(f.lit(True)), text).alias("object")


def _measures() -> list[Column]:
    from pyspark.sql import functions as f

    return [f.count("object"), f.expr("schema_of_variant_agg(try_parse_json(object))")]
