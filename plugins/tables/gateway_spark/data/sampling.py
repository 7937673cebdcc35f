"""Examines a batch before it is written: its event types, and the structure of their data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..tables.table import FAULT
from .evolution import ALL, MAX_DEPTH, MAX_FIELDS, clashes, without
from .types import parse, render

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from .schemas import Schemas

_SHORTEST = len('"k":1,')  # characters of a field


class Sample(NamedTuple):
    """`examined`: the number of events with a JSON object as data that was examined; `ddl`: the result of
    `schema_of_variant_agg` for those; `skipped`: the number that was not examined, since the data is too deep or has
    too many fields; `first`: the shard and position of one of these."""

    examined: int
    ddl: str | None
    skipped: int = 0
    first: tuple[int, int] | None = None


def sample(events: DataFrame) -> Sample:
    """Examines the data of all events in one pass."""
    from pyspark.sql import functions as f

    with _exact_names(events.sparkSession):
        row = events.where(f.col(FAULT).isNull()).select(*_objects()).agg(*_measures()).head()
    assert row is not None
    return _sample(*row)


def sample_by_type(events: DataFrame, schemas: Schemas, number: int, most: int) -> dict[str | None, Sample]:
    """Samples by event type, in one pass; None stands for rows that are not events. Types with a table come first, then
    others by name, at most `most` and one more. Data is examined only if a schema has to be inferred."""
    from pyspark.sql import functions as f

    tables = list(schemas.tables())
    wanted = schemas.needs_any_sample(number)
    group = f.when(f.col(FAULT).isNull(), f.col("type")).alias("type")
    rows = events.select(group, *_objects()) if wanted else events.select(group)
    order = [f.col("type").isNull().desc(), f.col("type").isin(tables).desc(), f.col("type")]
    measures = _measures() if wanted else [f.lit(0), f.lit(None).cast("string"), f.lit(0), f.lit(None).cast("string")]
    with _exact_names(events.sparkSession):
        found = rows.groupBy("type").agg(*measures).orderBy(*order).limit(most + 2).collect()
    return {r[0]: _sample(*r[1:]) for r in found}


@contextmanager
def _exact_names(spark: SparkSession) -> Iterator[None]:
    """Within it, fields whose names differ in case only are not taken for one, whichever came first."""
    name = "spark.sql.caseSensitive"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def _sample(examined: int, ddl: str | None, skipped: int, first: tuple[int, int] | None) -> Sample:
    return Sample(examined, ddl, skipped, (first[0], first[1]) if first else None)


def settled(events: DataFrame, event_type: str, seen: Sample) -> Sample:
    """The same with one field of those whose names differ in case only: the one that most of these events have."""
    from pyspark.sql import functions as f

    found = parse(seen.ddl, observed=True) if seen.ddl else "void"
    groups = clashes(found)
    names = [path for group in groups for path in group]
    if not names or any("'" in name or "\\" in name for path in names for name in path):
        return seen
    rows = events.where(f.col(FAULT).isNull())
    rows = rows if event_type == ALL else rows.where(f.col("type") == event_type)
    paths = ["$" + "".join(f"['{name}']" for name in path) for path in names]
    counts = rows.select(*_objects()).agg(*[f.count(f.get_json_object("object", path)) for path in paths]).head()
    assert counts is not None
    often = dict(zip(names, counts, strict=True))
    lost = {path for group in groups for path in group if path != max(group, key=lambda each: often[each])}
    return seen._replace(ddl=render(without(found, lost)))


def _objects() -> list[Column]:
    from pyspark.sql import functions as f

    text = f.col("data_text")
    # objects with values as keys would use up the fields of all other events
    wide = (f.length(text) > _SHORTEST * MAX_FIELDS) & (f.size(f.json_object_keys(text)) > MAX_FIELDS)
    is_object = f.ltrim(text, f.lit(" \t\r\n")).startswith("{")
    skipped = f.when(is_object, f.coalesce(f.when(wide, f.lit(True)), _deep(text), f.lit(False)))
    at = f.struct("shard", "position")
    return [f.when(~skipped, text).alias("object"), f.when(skipped, at).alias("skipped")]


def _deep(text: Column) -> Column:
    """Whether JSON has more than `MAX_DEPTH` levels. Counts brackets only, and removes the innermost pairs level by
    level: a parser that sees thousands of levels would end Spark's JVM."""
    from pyspark.sql import functions as f

    opened = f.length(text) - f.length(f.translate(text, "{[", ""))
    bare = text
    for what in (r"\\.", r'"[^"]*+"', r"[^\[\]{}]++", *[r"\[\]|\{\}"] * MAX_DEPTH):
        bare = f.regexp_replace(bare, what, "")
    return f.when(opened > MAX_DEPTH, bare != "").otherwise(f.lit(False))


def _measures() -> list[Column]:
    from pyspark.sql import functions as f

    examined = [f.count("object"), f.expr("schema_of_variant_agg(try_parse_json(object))")]
    return [*examined, f.count("skipped"), f.min("skipped")]
