"""The headers of any Kafka record: as the attributes of an event, or unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .columns import MAP, first, joined, let
from .patterns import FORBIDDEN

if TYPE_CHECKING:
    from pyspark.sql import Column

CONTENT_TYPE = "content-type"


def attributes_of(headers: Column) -> Column:
    """Attribute names (and `content-type`) with their text, or `fault`. Names are case-sensitive; if names differ only
    in case, the exact one wins."""
    from pyspark.sql import functions as f

    def carries(header: Column) -> Column:
        name = f.lower(header["key"])
        return header["value"].isNotNull() & (name.startswith("ce_") | (name == CONTENT_TYPE))

    def entry(header: Column) -> Column:
        name = f.lower(header["key"])
        attribute = f.when(name == CONTENT_TYPE, name).otherwise(f.substring(name, 4, 1000))
        mark = f.concat(f.when(header["key"] == name, f.lit("=")).otherwise(f.lit("~")), attribute)
        return f.struct(
            header["key"].alias("key"),
            attribute.alias("attribute"),
            mark.alias("mark"),
            header["value"].cast("string").alias("text"),
        )

    def validated(entries: Column, marks: Column) -> Column:
        numbered = f.transform(entries, lambda e, i: f.struct(e.alias("e"), i.alias("i")))
        fault = f.coalesce(
            first(
                entries, lambda e: e["attribute"] == "", lambda e: joined("header ", e["key"], " names no attribute")
            ),
            first(
                numbered,
                lambda n: f.array_position(marks, n["e"]["mark"]) != n["i"] + 1,
                lambda n: joined("header ", n["e"]["key"], " appears more than once"),
            ),
            first(
                entries,
                lambda e: ~f.is_valid_utf8(e["text"]),
                lambda e: joined("the value of header ", e["key"], " is not UTF-8"),
            ),
            first(
                entries,
                lambda e: e["text"].rlike(FORBIDDEN),
                lambda e: joined("the value of ", e["attribute"], " contains a character that no attribute may have"),
            ),
        )
        chosen = f.filter(
            entries,
            lambda e: (
                (f.substring(e["mark"], 1, 1) == "=") | ~f.array_contains(marks, f.concat(f.lit("="), e["attribute"]))
            ),
        )
        pairs = f.transform(chosen, lambda e: f.struct(e["attribute"], e["text"]))
        # a duplicate name would be an error in Spark instead of a fault of the record
        attributes = f.when(fault.isNull(), f.map_from_entries(pairs))
        return f.struct(fault.alias("fault"), attributes.alias("attributes"))

    none = f.expr("CAST(array() AS array<struct<key:string,value:binary>>)")
    entries = f.transform(f.filter(f.coalesce(headers, none), carries), entry)
    return let(entries, lambda es: validated(es, f.transform(es, lambda e: e["mark"])))


def as_they_are(headers: Column) -> Column:
    """The headers of a record that is not an event, as text, or in Base64 if not UTF-8. The last header of a name
    wins."""
    from pyspark.sql import functions as f

    def text(header: Column) -> Column:
        found = header["value"].cast("string")
        return f.when(f.is_valid_utf8(found), found).otherwise(f.base64(header["value"]))

    def last(header: Column, number: Column, names: Column) -> Column:
        return f.array_position(f.slice(names, number + 2, f.size(names)), header["key"]) == 0

    names = f.transform(headers, lambda h: h["key"])
    lasting = let(names, lambda ns: f.filter(headers, lambda h, i: last(h, i, ns)))
    pairs = f.transform(lasting, lambda h: f.struct(h["key"], text(h)))
    return f.coalesce(f.map_from_entries(pairs), f.expr(f"CAST(map() AS {MAP})"))
