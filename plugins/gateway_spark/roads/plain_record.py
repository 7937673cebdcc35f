"""The records that nearly all are: an event of CloudEvents 1.0 in binary mode, ASCII, nothing odd in its headers.

Whether a record is plain is one regular expression over all its values, and a plain one is an event: that is what makes
this road as quick as the query that a user would write, which checks nothing. Whatever is not plain is read by
`any_record`, with the same result for every plain one.

All here are expressions over the columns of Spark's Kafka source, with no step in between: each step would copy the
rows once more. What occurs in several of them Spark works out once, where one of them always needs it. Functions over
whole arrays are compiled; those that take a function of one's own are interpreted, and slow.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from .columns import ATTRIBUTES, MAP
from .patterns import PLAIN, PLAIN_EXTENSIONS, PLAIN_VALUES

if TYPE_CHECKING:
    from pyspark.sql import Column

MOST = 4
"""A plain record has so many extension attributes at most."""
_HEADERS = {**{name: f"ce_{name}" for name in ATTRIBUTES}, "datacontenttype": "content-type"}
_TRACE = ("traceparent", "tracestate")
_KNOWN = (*_HEADERS.values(), *_TRACE)


def attribute(name: str) -> Column:
    """The text of an attribute, null where it is not there."""
    from pyspark.sql import functions as f

    return _value(f.lit(_HEADERS.get(name, f"ce_{name}")))


def moment() -> Column:
    """The attribute `time`."""
    from pyspark.sql import functions as f

    time = attribute("time")
    return f.when(~time.startswith("0000"), time.try_cast("timestamp"))


def header_trace() -> Column:
    """The header `traceparent`."""
    from pyspark.sql import functions as f

    return _value(f.lit(_TRACE[0]))


def extension_trace() -> Column:
    """The extension attribute `traceparent`."""
    from pyspark.sql import functions as f

    return f.when(_others() > 0, _value(f.lit(f"ce_{_TRACE[0]}")))


def extensions() -> Column:
    """The extension attributes."""
    from pyspark.sql import functions as f

    made = f.when(_others() == 0, f.expr(f"CAST(map() AS {MAP})"))
    pairs: list[Column] = []
    for number in range(MOST):
        pairs += [f.substring(_other(number), 4, 1000), _value(_other(number))]
        made = made.when(_others() == number + 1, f.create_map(*pairs))
    return made


def is_plain() -> Column:
    """Whether the record is plain."""
    from pyspark.sql import functions as f

    def there(name: str) -> Column:
        return f.coalesce(attribute(name), f.lit("-"))

    values = f.concat_ws("\n", *map(attribute, ATTRIBUTES[:4]), *map(there, ATTRIBUTES[4:]))
    extended = [f.when(_others() > n, _value(_other(n))) for n in range(MOST)]
    plain_extensions = (
        (_count(extended) == _others())
        & f.array_join(_rest(), "\n").rlike(PLAIN_EXTENSIONS)
        & f.concat_ws("\n", *extended).rlike(PLAIN_VALUES)
    )
    # as many names as headers: none is there twice, none that is known has a null
    whole = _others() + _count([_value(f.lit(name)) for name in _KNOWN]) == f.size("headers")
    return f.coalesce(whole & values.rlike(PLAIN) & ((_others() == 0) | plain_extensions), f.lit(False))


def _names() -> Column:
    from pyspark.sql import functions as f

    return f.col("headers.key")


def _value(name: Column) -> Column:
    from pyspark.sql import functions as f

    texts = f.col("headers.value").cast("array<string>")
    return f.get(texts, (f.array_position(_names(), name) - 1).cast("int"))


def _rest() -> Column:
    """The names of the headers that are none of `_KNOWN`, each once."""
    from pyspark.sql import functions as f

    return f.array_except(_names(), f.array(*map(f.lit, _KNOWN)))


def _others() -> Column:
    from pyspark.sql import functions as f

    return f.size(_rest())


def _other(number: int) -> Column:
    from pyspark.sql import functions as f

    return f.get(_rest(), f.lit(number))


def _count(columns: list[Column]) -> Column:
    return reduce(add, [column.isNotNull().cast("int") for column in columns])
