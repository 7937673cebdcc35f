"""Building blocks of the Kafka reader's SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

ATTRIBUTES = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")
"""The attributes that have their own columns."""
MAP = "map<string,string>"
"""The type of a map of attributes."""


def let(value: Column, then: Callable[[Column], Column]) -> Column:
    """`then` of a value that is computed once, and only if it is needed."""
    from pyspark.sql import functions as f

    return f.get(f.transform(f.array(value), then), f.lit(0))


def first(items: Column, wanted: Callable[[Column], Column], told: Callable[[Column], Column]) -> Column:
    """The message about the first wanted item, or null."""
    from pyspark.sql import functions as f

    return f.get(f.transform(f.filter(items, wanted), told), f.lit(0))


def joined(*parts: Column | str) -> Column:
    """A message made of columns and text; null if a column is null."""
    from pyspark.sql import functions as f

    return f.concat(*(f.lit(part) if isinstance(part, str) else part for part in parts))


def declares_json(content_type: Column) -> Column:
    """Whether a content type is JSON (CloudEvents 1.0.2 json-format.md section 3.1.1)."""
    from pyspark.sql import functions as f

    usual = content_type == "application/json"
    return f.coalesce(usual | content_type.rlike(r"(?i)^[^/;]*+/(?:[^;]*\+)?json[ \t]*+(?:;|\z)"), f.lit(False))


def timestamp(text: Column) -> Column:
    """The time in an RFC 3339 text, or null. Digits after the sixth of a second's fraction are dropped; a leap second
    counts as the second after it."""
    from pyspark.sql import functions as f

    from .patterns import TIME

    plain = f.upper(text).try_cast("timestamp")
    leap = f.overlay(f.upper(text), f.lit("59"), f.lit(18), f.lit(2)).try_cast("timestamp") + f.expr(
        "INTERVAL 1 SECOND"
    )
    in_range = text.rlike(TIME) & ~text.startswith("0000")
    return f.when(in_range, f.when(f.substring(text, 18, 2) == "60", leap).otherwise(plain))


def trace_id(text: Column) -> Column:
    """The trace id in a `traceparent` (W3C Trace Context section 3.2), or null."""
    from pyspark.sql import functions as f

    from .patterns import TRACE_ID

    return f.when(text.rlike(TRACE_ID), f.substring(text, 4, 32))
