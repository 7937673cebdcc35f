"""The records that nearly all are: an event of CloudEvents 1.0 in binary mode, ASCII, nothing odd in its headers.

Whether a record is plain is one regular expression over all its values, and a plain one is an event: that is what makes
this road as quick as the query that a user would write, which checks nothing. Whatever is not plain is read by
`any_record`, with the same result for every plain one.

All here are expressions over the columns of Spark's Kafka source, with no step in between: each step would copy the
rows once more. What occurs in several of them Spark works out once, where one of them always needs it. Functions over
whole arrays are compiled; those that take a function of one's own are interpreted, and slow. There is little of it, for
what Spark makes of a longer one the JVM does not compile (`session_conf.COMPILED`).
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from .columns import ATTRIBUTES
from .patterns import PLAIN, PLAIN_EXTENSIONS, PLAIN_VALUES

if TYPE_CHECKING:
    from pyspark.sql import Column

MOST = 4
"""A plain record has so many extension attributes at most."""
_HEADERS = {**{name: f"ce_{name}" for name in ATTRIBUTES}, "datacontenttype": "content-type"}
_TRACE = ("traceparent", "tracestate")
_KNOWN = (*_HEADERS.values(), *_TRACE)


class PlainRecord:
    """What a plain record has, as columns; of another one they mean nothing.

    `is_plain` says whether it is one. `moment` is the attribute `time`, `extensions` are the extension attributes,
    `header_trace` is the header `traceparent` and `extension_trace` the extension attribute of that name.
    """

    def __init__(self) -> None:
        # made once, for each is a call of the JVM
        from pyspark.sql import functions as f

        self._names = f.col("headers.key")
        self._texts = f.col("headers.value").cast("array<string>")
        self._known = {name: self._value(f.lit(name)) for name in _KNOWN}
        self._rest = f.array_except(self._names, f.array(*map(f.lit, _KNOWN)))  # each once
        self._others = f.size(self._rest)
        names = [f.get(self._rest, f.lit(number)) for number in range(MOST)]
        values = list(map(self._value, names))
        self.is_plain = self._is_plain(values)
        time = self.attribute("time")
        self.moment = f.when(~time.startswith("0000"), time.try_cast("timestamp"))
        self.header_trace = self._known[_TRACE[0]]
        self.extension_trace = f.when(self._others > 0, self._value(f.lit(f"ce_{_TRACE[0]}")))
        pairs = (f.array(*(f.substring(name, 4, 1000) for name in names)), f.array(*values))
        made = f.map_from_arrays(*(f.slice(items, f.lit(1), self._others) for items in pairs))
        # the names of one that is not plain may be no keys of a map
        self.extensions = f.when(self.is_plain, made)

    def attribute(self, name: str) -> Column:
        """The text of an attribute, null where it is not there."""
        from pyspark.sql import functions as f

        header = _HEADERS.get(name, f"ce_{name}")
        return self._known[header] if header in self._known else self._value(f.lit(header))

    def _is_plain(self, values: list[Column]) -> Column:
        from pyspark.sql import functions as f

        def there(name: str) -> Column:
            return f.coalesce(self.attribute(name), f.lit("-"))

        # as many names as headers: none is there twice, none has a null, and there are no more than MOST others
        all_headers = self._others + _count(list(self._known.values())) == f.size("headers")
        whole = all_headers & (_count(values) == self._others)
        attributes = f.concat_ws("\n", *map(self.attribute, ATTRIBUTES[:4]), *map(there, ATTRIBUTES[4:]))
        # a name or a value with a line break is not taken for two
        plain_extensions = (
            f.array_join(self._rest, "\n").rlike(PLAIN_EXTENSIONS)
            & ~f.array_join(self._rest, "").contains("\n")
            & f.concat_ws("", *values).rlike(PLAIN_VALUES)
        )
        plain = whole & attributes.rlike(PLAIN) & ((self._others == 0) | plain_extensions)
        return f.coalesce(plain, f.lit(False))

    def _value(self, name: Column) -> Column:
        from pyspark.sql import functions as f

        return f.get(self._texts, (f.array_position(self._names, name) - 1).cast("int"))


def _count(columns: list[Column]) -> Column:
    return reduce(add, [column.isNotNull().cast("int") for column in columns])
