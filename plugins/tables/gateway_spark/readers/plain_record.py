"""Plain records, which nearly all are: CloudEvents 1.0 in binary mode, ASCII, nothing unusual in the headers.

One regular expression over all values decides whether a record is plain, and a plain record is a valid event. That
makes this reader as fast as a query that a user would write, which checks nothing. Other records are read by
`any_record`, which gives the same result for plain ones.

Everything here is an expression over the columns of Spark's Kafka source, with no intermediate step: each step would
copy the rows. Spark computes common subexpressions once if one of them is always needed. Functions over whole arrays
are compiled; those with a lambda are interpreted, and slow. The code is short, since the JVM does not compile long
generated methods (`session_conf.COMPILED`).
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
"""The most extension attributes of a plain record."""
_HEADERS = {**{name: f"ce_{name}" for name in ATTRIBUTES}, "datacontenttype": "content-type"}
_TRACE = ("traceparent", "tracestate")
_KNOWN = (*_HEADERS.values(), *_TRACE)


class PlainRecord:
    """The parts of a plain record, as columns; meaningless for other records.

    `is_plain` says whether it is one. `moment` is the attribute `time`, `extensions` are the extension attributes,
    `header_trace` is the header `traceparent` and `extension_trace` the extension attribute of that name.
    """

    def __init__(self) -> None:
        # built once, since each is a call to the JVM
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
        # the names in other records may not be valid map keys
        self.extensions = f.when(self.is_plain, made)

    def attribute(self, name: str) -> Column:
        """The text of an attribute, or null."""
        from pyspark.sql import functions as f

        header = _HEADERS.get(name, f"ce_{name}")
        return self._known[header] if header in self._known else self._value(f.lit(header))

    def _is_plain(self, values: list[Column]) -> Column:
        from pyspark.sql import functions as f

        def there(name: str) -> Column:
            return f.coalesce(self.attribute(name), f.lit("-"))

        # as many names as headers: no duplicates, no nulls, and at most MOST others
        all_headers = self._others + _count(list(self._known.values())) == f.size("headers")
        whole = all_headers & (_count(values) == self._others)
        attributes = f.concat_ws("\n", *map(self.attribute, ATTRIBUTES[:4]), *map(there, ATTRIBUTES[4:]))
        # a name or value with a line break must not count as two
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
