"""Converts any Kafka record to an event: odd header names, older versions, structured mode, or not an event.

The rules and the messages are those of the gateway's codec `cloudevents`. Everything here is evaluated only for records
that are not plain (`plain_record`), so it may be slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .any_headers import CONTENT_TYPE, as_they_are, attributes_of
from .columns import ATTRIBUTES, MAP, declares_json, first, joined, let
from .patterns import CHARSET, MEDIA_TYPE, STRUCTURED, TEXT_TYPE, TIME, URI, URI_REFERENCE

if TYPE_CHECKING:
    from pyspark.sql import Column

_FORMAT = "application/cloudevents+json"
_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
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
    """A record as columns of the table: a struct of `fault` (why it is not an event, or null), the text of
    `ATTRIBUTES`, `extensions` (the headers of a record that is not an event), `data`, and `json`, which says that the
    data is JSON although no attribute says so."""
    from pyspark.sql import functions as f

    def laid_out(event: Column) -> Column:
        attributes = event["attributes"]
        others = f.map_filter(attributes, lambda k, _: ~k.isin(*ATTRIBUTES))
        return f.struct(
            event["fault"].alias("fault"),
            *(attributes[name].alias(name) for name in ATTRIBUTES),
            f.when(event["fault"].isNull(), others).otherwise(as_they_are(headers)).alias("extensions"),
            f.when(event["fault"].isNull(), event["data"]).otherwise(value).alias("data"),
            event["json"].alias("json"),
        )

    # a value that is used more than once must be bound by `let`: otherwise each use copies the expression, which Spark
    # plans for every batch
    return let(let(let(attributes_of(headers), lambda found: _of(found, value)), _validated), laid_out)


def _of(found: Column, value: Column) -> Column:
    from pyspark.sql import functions as f

    content_type = found["attributes"][CONTENT_TYPE]
    essence = f.lower(f.trim(f.substring_index(content_type, ";", 1), f.lit(" \t")))
    return (
        f.when(found["fault"].isNotNull(), _fault(found["fault"]))
        .when(f.coalesce(essence == _FORMAT, f.lit(False)), _structured(content_type, value))
        .otherwise(_binary(found["attributes"], content_type, value))
    )


# -- binary mode ------------------------------------------------------------------------------------------------------


def _binary(attributes: Column, content_type: Column, value: Column) -> Column:
    from pyspark.sql import functions as f

    old = f.coalesce(attributes["specversion"].isin(*_OLD), f.lit(False))
    name = f.when(old, f.lit("contenttype")).otherwise(f.lit("datacontenttype"))
    # the header wins over an attribute of that name
    rest = f.map_filter(attributes, lambda k, _: (k != CONTENT_TYPE) & (content_type.isNull() | (k != name)))
    texts = f.transform_values(rest, lambda _, v: f.when(old, _json_text(v)).otherwise(v))
    typed = f.when(content_type.isNull(), f.expr(f"CAST(map() AS {MAP})")).otherwise(f.create_map(name, content_type))
    return let(f.map_concat(texts, typed), lambda whole: _without_encoding(whole, value))


def _json_text(text: Column) -> Column:
    """A header of 0.1 or 0.2: JSON, but strings may lack their quotes."""
    from pyspark.sql import functions as f

    string = f.get(f.from_json(f.concat(f.lit("["), text, f.lit("]")), "array<string>", _JSON), f.lit(0))
    return f.when(text.startswith('"'), f.coalesce(string, text)).otherwise(text)


def _without_encoding(attributes: Column, value: Column) -> Column:
    """The decoded data if a header of 0.3 says that it is Base64, as sdk-javascript sends it."""
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
    # in an array, because text after an object would be ignored
    objects = f.from_json(f.concat(f.lit("["), text, f.lit("]")), f"array<{MAP}>", _JSON)
    one = f.when(f.size(objects) == 1, f.get(objects, f.lit(0)))
    unreadable = f.coalesce(
        f.when(value.isNull(), f.lit("a structured event needs a value")),
        f.when(~charset.isin("", "utf-8", "utf8"), joined("charset ", charset, " is not taken; JSON events are UTF-8")),
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
            f.lit("a member of the JSON object appears more than once"),
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
    """`raw` is the JSON text of the member `data`, or "" if there is none."""
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
        wrong = joined("data is not a string, although its content type '", content_type, "' is not JSON")
        fault = f.coalesce(
            f.when(binary.isNotNull() & (version != "1.0"), joined("version ", version, " has no data_base64")),
            f.when(binary.isNotNull() & (raw != ""), f.lit("data and data_base64 are both there")),
            f.when((kind == "base64") & decoded.isNull(), f.lit("data is not a string of Base64")),
            f.when(kind == "wrong", wrong),
        )
        return _read(fault, attributes, encoded & (kind == "base64"), data, kind == "json")

    return let(kind, read)


# -- what an event must be --------------------------------------------------------------------------------------------


def _read(fault: Column, attributes: Column, encoded: Column, data: Column, json: Column) -> Column:
    """A record to be `_validated`. Data that was `encoded` is decoded by now."""
    from pyspark.sql import functions as f

    return f.struct(
        fault.cast("string").alias("fault"),
        attributes.cast(MAP).alias("attributes"),
        encoded.alias("encoded"),
        data.cast("binary").alias("data"),
        json.alias("json"),
    )


def _fault(why: Column) -> Column:
    from pyspark.sql import functions as f

    return _read(why, f.lit(None), f.lit(False), f.lit(None), f.lit(False))


def _validated(read: Column) -> Column:
    """The event if its attributes are valid, else the fault."""
    from pyspark.sql import functions as f

    kept = f.map_filter(read["attributes"], lambda k, _: ~read["encoded"] | (k != "datacontentencoding"))
    fault = f.coalesce(read["fault"], _attribute_fault(read["attributes"]))
    return let(
        fault,
        lambda why: f.struct(
            why.alias("fault"),
            f.when(why.isNull(), kept).alias("attributes"),
            read["data"].alias("data"),
            read["json"].alias("json"),
        ),
    )


def _attribute_fault(attributes: Column) -> Column:
    """Why these are not the attributes of an event, or null."""
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
        f.when(~version.isin(*_OPTIONAL), joined("unknown specversion '", version, "'; known are 1.0, 0.3, 0.2, 0.1")),
        first(
            f.map_keys(attributes),
            lambda name: ~f.regexp_like(name, pattern) | (name == "data"),
            lambda name: joined("'", name, "' is not an attribute name: a-z and 0-9 only, and not data"),
        ),
        first(
            lacking,
            lambda name: attributes[name].isNull(),
            lambda name: joined("required attribute ", name, " is missing"),
        ),
        first(
            lacking, lambda name: attributes[name] == "", lambda name: joined("required attribute ", name, " is empty")
        ),
        first(
            may_be,
            lambda name: attributes[name] == "",
            lambda name: joined("attribute ", name, " is there but empty"),
        ),
        *(
            f.when(
                version.isin(*versions) & ~attributes[name].rlike(test),
                joined(f"{name} '", f.substring(attributes[name], 1, 100), f"' {words}"),
            )
            for name, versions, test, words in _CHECKS
        ),
    )
