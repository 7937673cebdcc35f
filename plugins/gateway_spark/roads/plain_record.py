"""The records that nearly all are: an event of CloudEvents 1.0 in binary mode, ASCII, nothing odd in its headers.

Whether a record is plain is one regular expression over all its values, and a plain one is an event: that is what makes
this road as quick as the query that a user would write, which checks nothing. Whatever is not plain is read by
`any_record`, with the same result for every plain one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .columns import ATTRIBUTES
from .patterns import PLAIN, PLAIN_EXTENSIONS, PLAIN_VALUES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST = 4
"""A plain record has so many extension attributes at most."""
_HEADERS = {**{name: f"ce_{name}" for name in ATTRIBUTES}, "datacontenttype": "content-type"}
_TRACE = ("traceparent", "tracestate")
_MAP = "map<string,string>"


def looked_up(records: DataFrame) -> DataFrame:
    """The records of Spark's Kafka source with a column for each attribute (of plain records), and for `traceparent`;
    `extensions` and `plain`."""
    from pyspark.sql import functions as f

    # Functions over whole arrays are compiled; those that take a function of one's own are interpreted, and slow.
    named = records.select(
        *("key", "value", "partition", "offset", "timestamp", "headers"),
        f.col("headers.key").alias("names"),
        f.col("headers.value").cast("array<string>").alias("texts"),
    )
    found = named.select(
        "*",
        *(_value(f.lit(header)).alias(name) for name, header in _HEADERS.items()),
        *(_value(f.lit(n)).alias(n) for n in _TRACE),
    )
    others = f.size("headers") - _count([f.col(n) for n in (*ATTRIBUTES, *_TRACE)])
    known = f.array(*(f.lit(n) for n in (*_HEADERS.values(), *_TRACE)))
    none = f.expr("CAST(array() AS array<string>)")
    split = found.select("*", others.alias("others")).select(
        "*", f.when(f.col("others") == 0, none).otherwise(f.array_except("names", known)).alias("rest")
    )
    valued = split.select("*", *(_extension(n).alias(f"x{n}") for n in range(MOST)))
    return valued.select("*", _is_plain().alias("plain"), _extensions().alias("extensions"))


def _value(name: Column) -> Column:
    from pyspark.sql import functions as f

    return f.get("texts", (f.array_position("names", name) - 1).cast("int"))


def _extension(number: int) -> Column:
    from pyspark.sql import functions as f

    return f.when(f.col("others") > number, _value(f.get("rest", f.lit(number))))


def _count(columns: list[Column]) -> Column:
    from pyspark.sql import functions as f

    total = f.lit(0)
    for column in columns:
        total = total + column.isNotNull().cast("int")
    return total


def _is_plain() -> Column:
    from pyspark.sql import functions as f

    def there(name: str) -> Column:
        return f.coalesce(f.col(name), f.lit("-"))

    values = f.concat_ws("\n", "specversion", "id", "source", "type", *map(there, ATTRIBUTES[4:]))
    extended = [f.col(f"x{n}") for n in range(MOST)]
    plain_extensions = (
        # as many names as headers: none is there twice, none has a null
        (f.col("others") == f.size("rest"))
        & (_count(extended) == f.col("others"))
        & f.array_join("rest", "\n").rlike(PLAIN_EXTENSIONS)
        & f.concat_ws("\n", *extended).rlike(PLAIN_VALUES)
    )
    return f.coalesce(values.rlike(PLAIN) & ((f.col("others") == 0) | plain_extensions), f.lit(False))


def _extensions() -> Column:
    from pyspark.sql import functions as f

    made = f.when(f.col("others") == 0, f.expr(f"CAST(map() AS {_MAP})"))
    pairs: list[Column] = []
    for number in range(MOST):
        pairs += [f.substring(f.get("rest", f.lit(number)), 4, 1000), f.col(f"x{number}")]
        made = made.when((f.col("others") == number + 1) & (f.size("rest") == number + 1), f.create_map(*pairs))
    return made
