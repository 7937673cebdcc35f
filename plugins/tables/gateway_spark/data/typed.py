"""Converts JSON text to a typed column, and explains why a text does not match. Spark SQL only: no row passes through
Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from . import exact
from .types import Type, fields, kind, render, struct

if TYPE_CHECKING:
    from pyspark.sql import Column

NOT_JSON = "data is not JSON"
UNFIT = "data does not fit the schema"
_SHOWN = 80  # characters of a value that a reason shows
_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "bad",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    # by default a time without a date is today, and a date takes a time and loses its zone
    "timestampFormat": "yyyy-MM-dd[['T'][ ]HH:mm[:ss[.SSSSSSSSS]][XXX][XX][X]]",
    "timestampNTZFormat": "yyyy-MM-dd[['T'][ ]HH:mm[:ss[.SSSSSSSSS]]]",
    "dateFormat": "yyyy-MM-dd",
    "enableDateTimeParsingFallback": "false",
}


def parsed(text: Column, of: Type) -> Column:
    """A structure: `d`, the value of the text; `e` and `bad`, for `fault`."""
    from pyspark.sql import functions as f

    text = _safe(text, of)
    found = _parsed(text, of)
    if not exact.has(of, "string", "decimal", "timestamp"):
        return found
    value = found["d"]
    if exact.has(of, "string", "decimal"):
        second = _parsed(exact.marked(text), exact.texts(of), {**_OPTIONS, "allowUnquotedControlChars": "true"})
        wanted = exact.again(text, found["d"], of) & found["bad"].isNull()
        value = f.when(wanted, exact.merged(found["d"], second["d"], of)).otherwise(found["d"])
    bad = found["bad"]
    if exact.has(of, "decimal", "timestamp"):
        bad = f.coalesce(bad, f.when(exact.refused(found["d"], value, of), text))
    return f.struct(value.alias("d"), found["e"].alias("e"), bad.alias("bad"))


def _safe(text: Column, of: Type) -> Column:
    """The text, or null if it would keep the parser busy for minutes."""
    from pyspark.sql import functions as f

    return f.when(~exact.huge(text), text) if exact.has(of, "decimal") else text


def _parsed(text: Column, of: Type, options: Mapping[str, str] = _OPTIONS) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    schema = struct([("d", of, True), ("e", "boolean", True), ("bad", "string", True)])
    assert isinstance(schema, dict)
    # Spark's parser ignores text after a value, so the value is wrapped in another one
    whole = f.concat(f.lit('{"d":'), text, f.lit(',"e":true}'))
    return f.from_json(whole, StructType.fromJson(schema), dict(options))


def fault(found: Column, text: Column, data: Column, of: Type) -> Column:
    """Why data can't be in the table, null if it can: from the data, its text if it is JSON (else null), and the result
    of `parsed` for that. Null data is valid: an event need not have data."""
    from pyspark.sql import functions as f

    unfit = f.when(_bad(found), f.lit(UNFIT))
    for words in _missing(found["d"], of, ""):
        unfit = unfit.when(words.isNotNull(), words)
    return f.when(data.isNotNull(), f.when(text.isNull(), f.lit(NOT_JSON)).otherwise(unfit))


def reason(found: Column, text: Column, short: Column, of: Type) -> Column:
    """The full form of `fault`, for the few rows that have one: which field it is, and its value."""
    from pyspark.sql import functions as f

    whole = _parsed(text, "string")
    broken = f.when(_bad(whole), f.lit(NOT_JSON))
    if exact.has(of, "decimal"):
        long = f.lit(f"{UNFIT}: a number has an exponent of four digits or more")
        broken = f.coalesce(broken, f.when(exact.huge(text), long))
    full = f.coalesce(broken, *_misfits(found["d"], text, whole["d"], of, ""), f.lit(UNFIT))
    return f.when(short == UNFIT, full).otherwise(short)


def _bad(found: Column) -> Column:
    # `e` is missing if the text closes more brackets than it opens
    return found["bad"].isNotNull() | found["e"].isNull()


def _missing(value: Column, of: Type, path: str) -> list[Column]:
    """Columns with a message for each required field that a value lacks, else null. A value that is null itself lacks
    nothing."""
    from pyspark.sql import functions as f

    found = []
    for field in fields(of):
        inner = value[field["name"]]
        name = f"{path}{field['name']}"
        if not field["nullable"]:
            words = f.lit(f"{UNFIT}: field {name} is missing")
            found.append(f.when(value.isNotNull() & inner.isNull(), words))
        found += _missing(inner, field["type"], f"{name}.")
    if isinstance(of, dict) and kind(of) in ("array", "map"):
        element = of.get("elementType") or of.get("valueType")
        assert element is not None
        listed = value if kind(of) == "array" else f.map_values(value)
        if _missing(value, element, ""):
            found.append(f.get(f.array_compact(f.transform(listed, _missing_in(element, path))), f.lit(0)))
    return found


def _missing_in(element: Type, path: str) -> Callable[[Column], Column]:
    from pyspark.sql import functions as f

    return lambda e: f.coalesce(*_missing(e, element, f"{path.rstrip('.')}[]."))


def _misfits(value: Column, text: Column, shown: Column, of: Type, path: str) -> list[Column]:
    """Like `_missing`, for values of another type. `text` is the value's JSON (the characters of a string field), and
    `shown` the part that the message shows."""
    from pyspark.sql import functions as f

    is_struct = kind(of) == "struct"
    if is_struct or not path or kind(of) in ("array", "map"):
        wrong = _bad(_parsed(_safe(text, of), _OBJECT if is_struct else of))
    else:
        wrong = text.isNotNull() & (value.isNull() | exact.refused(value, value, of))
    short = f.when(f.length(shown) > _SHOWN, f.concat(f.substring(shown, 1, _SHOWN), f.lit("…"))).otherwise(shown)
    subject = f"field {path}" if path else "it"
    what = "an object" if is_struct else render(of, False)
    found = [f.when(wrong, f.concat(f.lit(f"{UNFIT}: {subject} is not {what}: "), short))]
    if is_struct and fields(of):
        # as a structure, not as a map: with duplicate fields, the last one counts in both
        texts = _parsed(text, struct([(field["name"], "string", True) for field in fields(of)]))["d"]
        for field in fields(of):
            name = field["name"]
            inner = f"{path}.{name}" if path else name
            found += _misfits(value[name], texts[name], texts[name], field["type"], inner)
    return found


_OBJECT: Type = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
