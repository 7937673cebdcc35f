"""A trigger's filter as SQL conditions, if possible; else the gateway's own filters run in Python workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from .columns import ATTRIBUTES

if TYPE_CHECKING:
    from pyspark.sql import Column


Of = Callable[[str], "Column"]
"""Returns an attribute of an event, as text."""


def column(name: str) -> Column:
    """An attribute of an event in columns, `time` as text."""
    from pyspark.sql import functions as f

    return f.col(name) if name in ATTRIBUTES else f.col("extensions")[name]


def wanted(filters: str, attributes: str, of: Of = column) -> list[Column]:
    """The conditions for an event, none of them null. `filters` is a JSON list as in a trigger, `attributes` a JSON
    object, used only if there are no filters; both may be empty. If SQL can't express them (`is_sql`), the event has to
    be in columns."""
    if filters and (refs := json.loads(filters)):
        made = [_condition(ref, of) for ref in refs]
        known = [c for c in made if c is not None]
        others = [ref for ref, c in zip(refs, made, strict=True) if c is None]
        return [*known, _asked(others)] if others else known
    if attributes and (pairs := json.loads(attributes)):
        return [of(n).isNotNull() if v == "" else _test(_equals, of(n), v) for n, v in pairs.items()]
    return []


def is_sql(filters: str, attributes: str) -> bool:
    """Whether SQL can express all of it."""
    refs = json.loads(filters) if filters else []
    return all(_condition(ref, column) is not None for ref in refs)


def _condition(ref: Any, of: Of) -> Column | None:
    """One filter as a condition, or None if SQL can't express it."""
    if not isinstance(ref, dict) or len(ref) != 1:
        return None
    ((name, options),) = ref.items()
    if name in _TESTS and isinstance(options, dict) and options:
        return reduce(and_, [_test(_TESTS[name], of(n), v) for n, v in options.items()])
    if name in ("all", "any") and isinstance(options, list) and options:
        parts = [_condition(option, of) for option in options]
        known = [part for part in parts if part is not None]
        return reduce(and_ if name == "all" else or_, known) if len(known) == len(parts) else None
    if name == "not":
        part = _condition(options, of)
        return None if part is None else ~part
    return None


def _test(test: Callable[[Column, str], Column], value: Column, text: str) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(test(value, text), f.lit(False))


def _equals(value: Column, text: str) -> Column:
    return value == text


def _starts(value: Column, text: str) -> Column:
    return value.startswith(text)


def _ends(value: Column, text: str) -> Column:
    return value.endswith(text)


_TESTS: Mapping[str, Callable[[Column, str], Column]] = {"exact": _equals, "prefix": _starts, "suffix": _ends}


def _asked(refs: list[Any]) -> Column:
    """Runs the gateway's filters. The workers need the gateway's packages for that."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import arrow_udf

    text = json.dumps(refs)

    def ask(columns: tuple[Any, ...]) -> Any:
        import pyarrow as pa

        from gateway_spark.source.filters import compiled

        matches = compiled(text, "")
        assert matches is not None
        found = []
        for *values, extensions, data, json_data, key in zip(*(c.to_pylist() for c in columns), strict=True):
            event = {n: v for n, v in zip(ATTRIBUTES, values, strict=True) if v is not None}
            # rows that are not events pass anyway
            found.append(not event or matches((0, 0, int(json_data), key, b"", data), {**event, **dict(extensions)}))
        return pa.array(found, pa.bool_())

    # PySpark derives the kind from type hints, and warns if it is given explicitly; without hints it is scalar
    asked: Callable[..., Column] = arrow_udf(lambda *columns: ask(columns), "boolean")  # type: ignore[call-overload]
    known = [f.col(name) for name in (*ATTRIBUTES, "extensions", "data")]
    return asked(*known, f.col("json"), f.col("key"))
