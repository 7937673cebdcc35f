"""What Spark's JSON parser changes, put right: numbers in STRING columns keep their text, and DECIMAL takes no strings.

The parser reads a number in a STRING field as a double and rewrites that (`1.10` becomes `1.1`, `1e400` a quoted
word), and a string in a DECIMAL field as a number of the locale. So where a row may have one of these, its text is
parsed a second time, with each number marked and quoted: `{"a": "<mark>1.10<mark>"}`. Spark SQL only: each step is one
pass over the text, none recurses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .types import Type, fields, kind, struct

if TYPE_CHECKING:
    from pyspark.sql import Column

# none of these can be in valid JSON as it is
_BACKSLASH, _QUOTE, _MARK = "\x01", "\x02", "\x03"
_ESCAPED_MARK = r"\u0003"
_REWRITTEN = r"[0-9][.eE]|-0"
"""In JSON with a number that the parser may write in another way."""
_NUMBER_TEXT = r'^-?([0-9]+(\.[0-9]+(E-?[0-9]+)?)?|Infinity|NaN)$|^[\[{"]'
"""What such numbers are as text, alone or within arrays and objects."""
_NUMBER_IN_STRING = r'"[-+.,]*[0-9]'
_HUGE = _MARK + r"[^" + _MARK + r"]*[eE][+-]?[0-9]{4,}" + _MARK


def has(of: Type, *kinds: str) -> bool:
    """Whether there are values of these kinds in a type."""
    inner = [f["type"] for f in fields(of)]
    if isinstance(of, dict):
        inner += [of[part] for part in ("elementType", "valueType") if part in of]
    return kind(of).partition("(")[0] in kinds or any(has(each, *kinds) for each in inner)


def marked(text: Column) -> Column:
    """JSON whose numbers are strings with marks around them."""
    from pyspark.sql import functions as f

    bare = f.replace(f.replace(text, f.lit("\\\\"), f.lit(_BACKSLASH)), f.lit('\\"'), f.lit(_QUOTE))
    number = f.lit(f'"{_MARK}$0{_MARK}"')
    parts = f.transform(
        f.split(bare, '"', -1),
        lambda part, n: f.when(n % 2 == 0, f.regexp_replace(part, f.lit("-?[0-9][0-9.eE+-]*"), number)).otherwise(part),
    )
    joined = f.array_join(parts, '"')
    return f.replace(f.replace(joined, f.lit(_QUOTE), f.lit('\\"')), f.lit(_BACKSLASH), f.lit("\\\\"))


def huge(text: Column) -> Column:
    """Whether there is a number with an exponent of four digits or more, which a DECIMAL would spell out."""
    from pyspark.sql import functions as f

    return f.when(text.rlike("[0-9][eE][+-]?[0-9]{4,}"), marked(text).rlike(_HUGE)).otherwise(f.lit(False))


def again(text: Column, value: Column, of: Type) -> Column:
    """Whether the row has to be parsed with marks."""
    from pyspark.sql import functions as f

    wanted = f.lit(False)
    if has(of, "string"):
        wanted = wanted | (text.rlike(_REWRITTEN) & _may_be_number(value, of))
    if has(of, "decimal"):
        wanted = wanted | text.rlike(_NUMBER_IN_STRING)
    return wanted & ~text.contains(_ESCAPED_MARK)


def _may_be_number(value: Column, of: Type) -> Column:
    """Whether a STRING in a value may be a number that was rewritten; true for those in arrays and maps."""
    from pyspark.sql import functions as f

    if of == "string":
        return f.coalesce(value.rlike(_NUMBER_TEXT), f.lit(False))
    found = f.lit(kind(of) in ("array", "map") and has(of, "string"))
    for field in fields(of):
        if has(field["type"], "string"):
            found = found | _may_be_number(value[field["name"]], field["type"])
    return found


def texts(of: Type) -> Type:
    """The part of a type that is parsed with marks: strings, and decimals as strings."""
    if kind(of).startswith("decimal") or of == "string":
        return "string"
    if fields(of):
        kept = [(f["name"], texts(f["type"]), True) for f in fields(of) if has(f["type"], "string", "decimal")]
        return struct(kept)
    if isinstance(of, dict):
        part = "elementType" if kind(of) == "array" else "valueType"
        return {**of, part: texts(of[part])}
    return of


def merged(value: Column, text: Column, of: Type) -> Column:
    """The value with the STRINGs of the marked one, and without DECIMALs that were strings."""
    from pyspark.sql import functions as f

    if of == "string":
        inner = f.regexp_replace(text, r'"\\u0003([^"\\]*)\\u0003"', "$1")
        return f.when(text.startswith(_MARK), f.replace(text, f.lit(_MARK), f.lit(""))).otherwise(inner)
    if kind(of).startswith("decimal"):
        return f.when(text.startswith(_MARK), value)
    if not has(of, "string", "decimal"):
        return value
    if kind(of) == "array":
        element = of["elementType"]  # type: ignore[index]
        return f.zip_with(value, text, lambda v, t: merged(v, t, element))
    if kind(of) == "map":
        inner_type = of["valueType"]  # type: ignore[index]
        return f.map_zip_with(value, text, lambda _, v, t: merged(v, t, inner_type))
    parts = []
    for field in fields(of):
        name, inner_of = field["name"], field["type"]
        own = value[name]
        parts.append((merged(own, text[name], inner_of) if has(inner_of, "string", "decimal") else own).alias(name))
    return f.when(value.isNotNull(), f.struct(*parts))


def refused(value: Column, found: Column, of: Type) -> Column:
    """Whether a DECIMAL of the value is not in the merged one, or a time is beyond the years 1 to 9999, which no sender
    means: milliseconds since 1970, for example."""
    from pyspark.sql import functions as f

    none = f.lit(False)
    if kind(of).startswith("decimal"):
        return value.isNotNull() & found.isNull()
    if of == "timestamp":
        return f.coalesce(~f.year(value).between(1, 9999), none)
    if not has(of, "decimal", "timestamp"):
        return none
    if isinstance(of, dict) and kind(of) in ("array", "map"):
        element: Type = of.get("elementType") or of["valueType"]
        lists = [each if kind(of) == "array" else f.map_values(each) for each in (value, found)]
        pairs = f.arrays_zip(lists[0].alias("v"), lists[1].alias("f"))
        return f.coalesce(f.exists(pairs, lambda e: refused(e["v"], e["f"], element)), none)
    any_refused = none
    for field in fields(of):
        name = field["name"]
        any_refused = any_refused | f.coalesce(refused(value[name], found[name], field["type"]), none)
    return any_refused
