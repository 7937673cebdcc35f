"""A trigger's filter as conditions of SQL where SQL can say it; else the gateway's own filters are asked, in Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from .columns import ATTRIBUTES

if TYPE_CHECKING:
    from pyspark.sql import Column


def wanted(filters: str, attributes: str) -> list[Column]:
    """The conditions that an event's columns (`time` as text) must fulfil, none of them null. `filters` is a JSON list
    as in a trigger, `attributes` a JSON object, asked only where there are no filters; both may be empty."""
    if filters and (refs := json.loads(filters)):
        made = [_condition(ref) for ref in refs]
        known = [c for c in made if c is not None]
        others = [ref for ref, c in zip(refs, made, strict=True) if c is None]
        return [*known, _asked(others)] if others else known
    if attributes and (pairs := json.loads(attributes)):
        return [_is_there(n) if v == "" else _pair(n, v, _equals) for n, v in pairs.items()]
    return []


def _condition(ref: Any) -> Column | None:
    """One filter as a condition; None for those that SQL can't say."""
    if not isinstance(ref, dict) or len(ref) != 1:
        return None
    ((name, options),) = ref.items()
    if name in _TESTS and isinstance(options, dict) and options:
        return reduce(and_, [_pair(n, v, _TESTS[name]) for n, v in options.items()])
    if name in ("all", "any") and isinstance(options, list) and options:
        parts = [_condition(option) for option in options]
        known = [part for part in parts if part is not None]
        return reduce(and_ if name == "all" else or_, known) if len(known) == len(parts) else None
    if name == "not":
        part = _condition(options)
        return None if part is None else ~part
    return None


def _attribute(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.col(name) if name in ATTRIBUTES else f.col("extensions")[name]


def _is_there(name: str) -> Column:
    return _attribute(name).isNotNull()


def _pair(name: str, text: str, test: Callable[[Column, str], Column]) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(test(_attribute(name), text), f.lit(False))


def _equals(value: Column, text: str) -> Column:
    return value == text


def _starts(value: Column, text: str) -> Column:
    return value.startswith(text)


def _ends(value: Column, text: str) -> Column:
    return value.endswith(text)


_TESTS: Mapping[str, Callable[[Column, str], Column]] = {"exact": _equals, "prefix": _starts, "suffix": _ends}


def _asked(refs: list[Any]) -> Column:
    """Asks the gateway's filters. The workers need the gateway's packages for that."""
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
            # what is no event comes through anyway
            found.append(not event or matches((0, 0, int(json_data), key, "", data), {**event, **dict(extensions)}))
        return pa.array(found, pa.bool_())

    # PySpark takes its kind from a function's hints, and warns where it is said otherwise; one without any is scalar
    asked: Callable[..., Column] = arrow_udf(lambda *columns: ask(columns), "boolean")  # type: ignore[call-overload]
    known = [f.col(name) for name in (*ATTRIBUTES, "extensions", "data")]
    return asked(*known, f.coalesce(f.col("other.json"), f.lit(False)), f.col("key"))
