"""A Kafka record as an event, whatever it is like: odd header names, older versions, structured mode, or no event.

The rules, and the words of the faults, are those of the gateway's codec `cloudevents`. Everything here is evaluated for
those records only that are not plain (`plain_record`), so it may be slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .columns import ATTRIBUTES, declares_json, first, let
from .patterns import (
    CHARSET,
    FORBIDDEN,
    MEDIA_TYPE,
    STRUCTURED,
    TEXT_TYPE,
    TIME,
    URI,
    URI_REFERENCE,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

CONTENT_TYPE = "content-type"
_FORMAT = "application/cloudevents+json"
_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_MAP = "map<string,string>"
_REQUIRED = ("specversion", "id", "source", "type")
_OPTIONAL = {
    "1.0": ("datacontenttype", "dataschema", "subject", "time"),
    "0.3": ("datacontentencoding", "datacontenttype", "schemaurl", "subject", "time"),
    "0.2": ("contenttype", "schemaurl", "time"),
    "0.1": ("contenttype", "schemaurl", "time"),
}
_NEW, _OLD = ("1.0", "0.3"), ("0.2", "0.1")
_IS_MEDIA_TYPE = (MEDIA_TYPE, "is not a media type such as application/json (RFC 2046)")
_IS_URI_REFERENCE = (URI_REFERENCE, "is not a URI-reference (RFC 3986 section 4.1)")
_IS_URI = (URI, "is not an absolute URI (RFC 3986 section 4.3)")
_IS_TIME = (TIME, "is not an RFC 3339 date and time such as 2018-04-05T17:31:00Z")
_CHECKS = (
    ("source", (*_NEW, *_OLD), *_IS_URI_REFERENCE),
    ("datacontenttype", _NEW, *_IS_MEDIA_TYPE),
    ("contenttype", _OLD, *_IS_MEDIA_TYPE),
    ("dataschema", ("1.0",), *_IS_URI),
    ("schemaurl", ("0.3",), *_IS_URI_REFERENCE),
    ("schemaurl", _OLD, *_IS_URI),
    ("time", (*_NEW, *_OLD), *_IS_TIME),
)


def columns(headers: Column, value: Column) -> Column:
    """What a record is in the table: a struct of `fault` (why it is no event, else null), the text of `ATTRIBUTES`,
    `extensions` (of a record that is no event its headers), `data`, and `json`, which says that the data is JSON
    although no attribute says so."""
    from pyspark.sql import functions as f

    def laid_out(event: Column) -> Column:
        attributes = event["attributes"]
        others = f.map_filter(attributes, lambda k, _: ~k.isin(*ATTRIBUTES))
        return f.struct(
            event["fault"].alias("fault"),
            *(attributes[name].alias(name) for name in ATTRIBUTES),
            f.when(event["fault"].isNull(), others).otherwise(_as_they_are(headers)).alias("extensions"),
            f.when(event["fault"].isNull(), event["data"]).otherwise(value).alias("data"),
            event["json"].alias("json"),
        )

    # a value that is used more than once has to be bound by `let`: else each use is one more copy of the expression,
    # and Spark plans every batch anew
    return let(let(let(_headers(headers), lambda found: _of(found, value)), _judged), laid_out)


def _of(found: Column, value: Column) -> Column:
    from pyspark.sql import functions as f

    content_type = found["attributes"][CONTENT_TYPE]
    essence = f.lower(f.trim(f.substring_index(content_type, ";", 1), f.lit(" \t")))
    return (
        f.when(found["fault"].isNotNull(), _fault(found["fault"]))
        .when(f.coalesce(essence == _FORMAT, f.lit(False)), _structured(content_type, value))
        .otherwise(_binary(found["attributes"], content_type, value))
    )


# -- headers ----------------------------------------------------------------------------------------------------------


def _headers(headers: Column) -> Column:
    """Attribute names (and `content-type`) with their text, or `fault`. Names count as they are written; where only
    the case differs the exact name wins."""
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

    def judged(entries: Column, marks: Column) -> Column:
        numbered = f.transform(entries, lambda e, i: f.struct(e.alias("e"), i.alias("i")))
        fault = f.coalesce(
            first(entries, lambda e: e["attribute"] == "", lambda e: _text("header ", e["key"], " names no attribute")),
            first(
                numbered,
                lambda n: f.array_position(marks, n["e"]["mark"]) != n["i"] + 1,
                lambda n: _text("header ", n["e"]["key"], " is there more than once"),
            ),
            first(
                entries,
                lambda e: ~f.is_valid_utf8(e["text"]),
                lambda e: _text("the value of header ", e["key"], " is not UTF-8"),
            ),
            first(
                entries,
                lambda e: e["text"].rlike(FORBIDDEN),
                lambda e: _text("the value of ", e["attribute"], " contains a character that no attribute may have"),
            ),
        )
        chosen = f.filter(
            entries,
            lambda e: (
                (f.substring(e["mark"], 1, 1) == "=") | ~f.array_contains(marks, f.concat(f.lit("="), e["attribute"]))
            ),
        )
        pairs = f.transform(chosen, lambda e: f.struct(e["attribute"], e["text"]))
        # twice the same name would be an error of Spark's, not of the record
        attributes = f.when(fault.isNull(), f.map_from_entries(pairs))
        return f.struct(fault.alias("fault"), attributes.alias("attributes"))

    none = f.expr("CAST(array() AS array<struct<key:string,value:binary>>)")
    entries = f.transform(f.filter(f.coalesce(headers, none), carries), entry)
    return let(entries, lambda es: judged(es, f.transform(es, lambda e: e["mark"])))


# -- binary mode ------------------------------------------------------------------------------------------------------


def _binary(attributes: Column, content_type: Column, value: Column) -> Column:
    from pyspark.sql import functions as f

    old = f.coalesce(attributes["specversion"].isin(*_OLD), f.lit(False))
    name = f.when(old, f.lit("contenttype")).otherwise(f.lit("datacontenttype"))
    # the header wins over an attribute of that name
    rest = f.map_filter(attributes, lambda k, _: (k != CONTENT_TYPE) & (content_type.isNull() | (k != name)))
    texts = f.transform_values(rest, lambda _, v: f.when(old, _json_text(v)).otherwise(v))
    typed = f.when(content_type.isNull(), f.expr(f"CAST(map() AS {_MAP})")).otherwise(f.create_map(name, content_type))
    return let(f.map_concat(texts, typed), lambda whole: _without_encoding(whole, value))


def _json_text(text: Column) -> Column:
    """A header of 0.1 or 0.2: JSON, but strings may lack their quotes."""
    from pyspark.sql import functions as f

    string = f.get(f.from_json(f.concat(f.lit("["), text, f.lit("]")), "array<string>", _JSON), f.lit(0))
    return f.when(text.startswith('"'), f.coalesce(string, text)).otherwise(text)


def _without_encoding(attributes: Column, value: Column) -> Column:
    """The data itself where a header of 0.3 says that it is Base64, as sdk-javascript sends it."""
    from pyspark.sql import functions as f

    encoded = _is_encoded(attributes)
    data = f.when(encoded, f.coalesce(f.try_to_binary(value.cast("string"), f.lit("base64")), value)).otherwise(value)
    return _read(f.lit(None), attributes, encoded, data, f.lit(False))


def _is_encoded(attributes: Column) -> Column:
    from pyspark.sql import functions as f

    base64 = f.lower(attributes["datacontentencoding"]) == "base64"
    return f.coalesce((attributes["specversion"] == "0.3") & base64, f.lit(False))


# -- structured mode --------------------------------------------------------------------------------------------------


def _structured(content_type: Column, value: Column) -> Column:
    from pyspark.sql import functions as f

    text = value.cast("string")
    charset = f.lower(f.replace(f.regexp_extract(content_type, CHARSET, 1), f.lit('"'), f.lit("")))
    # in an array, because what follows an object is not looked at
    objects = f.from_json(f.concat(f.lit("["), text, f.lit("]")), f"array<{_MAP}>", _JSON)
    one = f.when(f.size(objects) == 1, f.get(objects, f.lit(0)))
    unreadable = f.coalesce(
        f.when(value.isNull(), f.lit("a structured event needs a value")),
        f.when(~charset.isin("", "utf-8", "utf8"), _text("charset ", charset, " is not taken; JSON events are UTF-8")),
        f.when(~f.is_valid_utf8(text), f.lit("the value is not UTF-8")),
    )
    return let(
        unreadable, lambda why: f.when(why.isNull(), let(one, lambda m: _of_json(m, text))).otherwise(_fault(why))
    )


def _of_json(members: Column, text: Column) -> Column:
    from pyspark.sql import functions as f

    names = f.map_keys(members)
    fault = f.coalesce(
        f.when(members.isNull(), f.lit("not a JSON object of an event")),
        f.when(
            f.size(f.array_distinct(names)) < f.size(names),
            f.lit("a member of the JSON object is there more than once"),
        ),
        f.when(
            ~text.rlike(STRUCTURED),
            f.lit(
                "the value of an attribute is not a string, a whole number or a boolean "
                "(those that the specification names are strings)"
            ),
        ),
    )
    attributes = f.map_filter(members, lambda k, v: ~k.isin("data", "data_base64") & v.isNotNull())
    known = f.struct(attributes.alias("attributes"), f.regexp_extract(text, STRUCTURED, 1).alias("data"))

    def read(known: Column) -> Column:
        return _with_data(members, known["attributes"], known["data"])

    return let(fault, lambda why: f.when(why.isNull(), let(known, read)).otherwise(_fault(why)))


def _with_data(members: Column, attributes: Column, raw: Column) -> Column:
    """`raw` is the JSON text of the member `data`; "" where there is none."""
    from pyspark.sql import functions as f

    version = attributes["specversion"]
    old = f.coalesce(version.isin(*_OLD), f.lit(False))
    content_type = attributes[f.when(old, f.lit("contenttype")).otherwise(f.lit("datacontenttype"))]
    string = f.when(raw.startswith('"'), members["data"])
    binary, encoded = members["data_base64"], _is_encoded(attributes)
    kind = (
        f.when(binary.isNotNull(), f.lit("base64"))
        .when(raw == "", f.lit("none"))
        .when(encoded, f.lit("base64"))
        .when(content_type.isNull(), f.lit("json"))
        .when(declares_json(content_type), f.lit("raw"))
        .when(old & string.isNull(), f.lit("json"))
        .when(old & ~content_type.rlike(TEXT_TYPE), f.lit("either"))
        .when(string.isNotNull(), f.lit("text"))
        .when(raw == "null", f.lit("none"))
        .otherwise(f.lit("wrong"))
    )

    def read(kind: Column) -> Column:
        decoded = f.try_to_binary(f.coalesce(binary, string), f.lit("base64"))
        # 0.2 json-format.md section 3.1: what is no Base64 can only be text
        data = (
            f.when(kind.isin("json", "raw"), raw.cast("binary"))
            .when(kind == "text", string.cast("binary"))
            .when(kind == "base64", decoded)
            .when(kind == "either", f.coalesce(decoded, string.cast("binary")))
        )
        wrong = _text("data is not a string, although its content type '", content_type, "' is not JSON")
        fault = f.coalesce(
            f.when(binary.isNotNull() & (version != "1.0"), _text("version ", version, " has no data_base64")),
            f.when(binary.isNotNull() & (raw != ""), f.lit("data and data_base64 are both there")),
            f.when((kind == "base64") & decoded.isNull(), f.lit("data is not a string of Base64")),
            f.when(kind == "wrong", wrong),
        )
        return _read(fault, attributes, encoded & (kind == "base64"), data, kind == "json")

    return let(kind, read)


# -- what an event must be --------------------------------------------------------------------------------------------


def _read(fault: Column, attributes: Column, encoded: Column, data: Column, json: Column) -> Column:
    """What was read: to be `_judged`. Where the data was `encoded` it is that no more."""
    from pyspark.sql import functions as f

    return f.struct(
        fault.cast("string").alias("fault"),
        attributes.cast(_MAP).alias("attributes"),
        encoded.alias("encoded"),
        data.cast("binary").alias("data"),
        json.alias("json"),
    )


def _fault(why: Column) -> Column:
    from pyspark.sql import functions as f

    return _read(why, f.lit(None), f.lit(False), f.lit(None), f.lit(False))


def _judged(read: Column) -> Column:
    """The event where its attributes are valid; else the fault."""
    from pyspark.sql import functions as f

    kept = f.map_filter(read["attributes"], lambda k, _: ~read["encoded"] | (k != "datacontentencoding"))
    fault = f.coalesce(read["fault"], _why_not(read["attributes"]))
    return let(
        fault,
        lambda why: f.struct(
            why.alias("fault"),
            f.when(why.isNull(), kept).alias("attributes"),
            read["data"].alias("data"),
            read["json"].alias("json"),
        ),
    )


def _why_not(attributes: Column) -> Column:
    """Why these are not the attributes of an event; null where they are."""
    from pyspark.sql import functions as f

    version = attributes["specversion"]
    lacking = f.array(*map(f.lit, _REQUIRED))
    pattern = f.when(version == "1.0", f.lit("^[a-z0-9]+$")).otherwise(f.lit("^[a-z][a-z0-9]*$"))
    may_be = f.lit(None).cast("array<string>")
    for number, names in _OPTIONAL.items():
        may_be = f.when(version == number, f.array(*map(f.lit, names))).otherwise(may_be)
    return f.coalesce(
        f.when(
            version.isNull() & attributes["cloudeventsversion"].isNotNull(),
            f.lit("CloudEvents 0.1 with the names of its release (eventType) is not read from Kafka by Spark"),
        ),
        f.when(version.isNull(), f.lit("required attribute specversion is missing")),
        f.when(~version.isin(*_OPTIONAL), _text("unknown specversion '", version, "'; known are 1.0, 0.3, 0.2, 0.1")),
        first(
            f.map_keys(attributes),
            lambda name: ~f.regexp_like(name, pattern) | (name == "data"),
            lambda name: _text("'", name, "' is not an attribute name: a-z and 0-9 only, and not data"),
        ),
        first(
            lacking,
            lambda name: attributes[name].isNull(),
            lambda name: _text("required attribute ", name, " is missing"),
        ),
        first(
            lacking, lambda name: attributes[name] == "", lambda name: _text("required attribute ", name, " is empty")
        ),
        first(
            may_be,
            lambda name: attributes[name] == "",
            lambda name: _text("attribute ", name, " is there but empty"),
        ),
        *(
            f.when(
                version.isin(*versions) & ~attributes[name].rlike(test),
                _text(f"{name} '", f.substring(attributes[name], 1, 100), f"' {words}"),
            )
            for name, versions, test, words in _CHECKS
        ),
    )


def _text(*parts: Column | str) -> Column:
    from pyspark.sql import functions as f

    return f.concat(*(f.lit(part) if isinstance(part, str) else part for part in parts))


def _as_they_are(headers: Column) -> Column:
    """The headers of a record that is no event, as text; what is not UTF-8 in Base64. Of one name the last counts."""
    from pyspark.sql import functions as f

    def text(header: Column) -> Column:
        found = header["value"].cast("string")
        return f.when(f.is_valid_utf8(found), found).otherwise(f.base64(header["value"]))

    def last(header: Column, number: Column, names: Column) -> Column:
        return f.array_position(f.slice(names, number + 2, f.size(names)), header["key"]) == 0

    names = f.transform(headers, lambda h: h["key"])
    lasting = let(names, lambda ns: f.filter(headers, lambda h, i: last(h, i, ns)))
    pairs = f.transform(lasting, lambda h: f.struct(h["key"], text(h)))
    return f.coalesce(f.map_from_entries(pairs), f.expr(f"CAST(map() AS {_MAP})"))
