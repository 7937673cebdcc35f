"""A Kafka record as an event, whatever it is like: odd header names, older versions, structured mode, or no event.

The rules, and the words of the faults, are those of the gateway's codec `cloudevents`. Everything here is evaluated for
those records only that are not plain (`plain_record`), so it may be slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .columns import declares_json, first, let
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

TYPE = "struct<fault:string,attributes:map<string,string>,data:binary,json:boolean>"
CONTENT_TYPE = "content-type"
_FORMAT = "application/cloudevents+json"
_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_CHECKS = {
    "source": (URI_REFERENCE, "is not a URI-reference (RFC 3986 section 4.1)"),
    "datacontenttype": (MEDIA_TYPE, "is not a media type such as application/json (RFC 2046)"),
    "contenttype": (MEDIA_TYPE, "is not a media type such as application/json (RFC 2046)"),
    "dataschema": (URI, "is not an absolute URI (RFC 3986 section 4.3)"),
    "time": (TIME, "is not an RFC 3339 date and time such as 2018-04-05T17:31:00Z"),
}
_REQUIRED = ("specversion", "id", "source", "type")
_OLDER = {
    "0.3": ("datacontentencoding", "datacontenttype", "schemaurl", "subject", "time"),
    "0.2": ("contenttype", "schemaurl", "time"),
    "0.1": ("contenttype", "schemaurl", "time"),
}
_OPTIONAL = {"1.0": ("datacontenttype", "dataschema", "subject", "time"), **_OLDER}


def event(headers: Column, value: Column) -> Column:
    """The event of a record, or `fault`: why it is none. A struct of the type `TYPE`; `json` says that the data is JSON
    although no attribute says so."""
    from pyspark.sql import functions as f

    def read(found: Column) -> Column:
        content_type = found["attributes"][CONTENT_TYPE]
        essence = f.lower(f.trim(f.substring_index(content_type, ";", 1), f.lit(" \t")))
        return (
            f.when(found["fault"].isNotNull(), _fault(found["fault"]))
            .when(f.coalesce(essence == _FORMAT, f.lit(False)), _structured(content_type, value))
            .otherwise(_binary(found["attributes"], content_type, value))
        )

    return let(_headers(headers), read)


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

    version = attributes["specversion"]
    old = f.coalesce(version.isin("0.2", "0.1"), f.lit(False))
    name = f.when(old, f.lit("contenttype")).otherwise(f.lit("datacontenttype"))
    # the header wins over an attribute of that name
    rest = f.map_filter(attributes, lambda k, _: (k != CONTENT_TYPE) & (content_type.isNull() | (k != name)))
    texts = f.when(old, f.transform_values(rest, lambda _, v: _json_text(v))).otherwise(rest)
    whole = f.when(content_type.isNull(), texts).otherwise(f.map_concat(texts, f.create_map(name, content_type)))
    return let(whole, lambda a: _without_encoding(a, value))


def _json_text(text: Column) -> Column:
    """A header of 0.1 or 0.2: JSON, but strings may lack their quotes."""
    from pyspark.sql import functions as f

    string = f.get(f.from_json(f.concat(f.lit("["), text, f.lit("]")), "array<string>", _JSON), f.lit(0))
    return f.when(text.startswith('"'), f.coalesce(string, text)).otherwise(text)


def _without_encoding(attributes: Column, value: Column) -> Column:
    """The data itself where a header of 0.3 says that it is Base64, as sdk-javascript sends it."""
    from pyspark.sql import functions as f

    encoded = (attributes["specversion"] == "0.3") & (f.lower(attributes["datacontentencoding"]) == "base64")
    rest = f.map_filter(attributes, lambda k, _: k != "datacontentencoding")
    data = f.coalesce(f.try_to_binary(value.cast("string"), f.lit("base64")), value)
    plain = _judged(attributes, value, f.lit(False))
    return f.when(f.coalesce(encoded, f.lit(False)), _judged(attributes, data, f.lit(False), rest)).otherwise(plain)


# -- structured mode --------------------------------------------------------------------------------------------------


def _structured(content_type: Column, value: Column) -> Column:
    from pyspark.sql import functions as f

    text = value.cast("string")
    charset = f.lower(f.replace(f.regexp_extract(content_type, CHARSET, 1), f.lit('"'), f.lit("")))
    # in an array, because what follows an object is not looked at
    objects = f.from_json(f.concat(f.lit("["), text, f.lit("]")), "array<map<string,string>>", _JSON)
    return (
        f.when(value.isNull(), _fault(f.lit("a structured event needs a value")))
        .when(
            ~charset.isin("", "utf-8", "utf8"),
            _fault(_text("charset ", charset, " is not taken; JSON events are UTF-8")),
        )
        .when(~f.is_valid_utf8(text), _fault(f.lit("the value is not UTF-8")))
        .otherwise(let(objects, lambda found: _of_json(found, text)))
    )


def _of_json(objects: Column, text: Column) -> Column:
    from pyspark.sql import functions as f

    one = f.coalesce((f.size(objects) == 1) & f.get(objects, f.lit(0)).isNotNull(), f.lit(False))

    def read(members: Column) -> Column:
        names = f.map_keys(members)
        twice = f.size(f.array_distinct(names)) < f.size(names)
        return (
            f.when(twice, _fault(f.lit("a member of the JSON object is there more than once")))
            .when(~text.rlike(STRUCTURED), _fault(f.lit(_KINDS)))
            .otherwise(_with_data(members, f.regexp_extract(text, STRUCTURED, 1)))
        )

    broken = _fault(f.lit("not a JSON object of an event"))
    return f.when(one, let(f.get(objects, f.lit(0)), read)).otherwise(broken)


_KINDS = (
    "the value of an attribute is not a string, a whole number or a boolean (those that the specification names are "
    "strings)"
)


def _with_data(members: Column, data: Column) -> Column:
    """`data` is the text of the member; "" where there is none."""
    from pyspark.sql import functions as f

    attributes = f.map_filter(members, lambda k, v: ~k.isin("data", "data_base64") & v.isNotNull())
    binary, string = members["data_base64"], f.when(data.startswith('"'), members["data"])
    old = f.coalesce(attributes["specversion"].isin("0.2", "0.1"), f.lit(False))
    content_type = f.when(old, attributes["contenttype"]).otherwise(attributes["datacontenttype"])
    encoded = (attributes["specversion"] == "0.3") & (f.lower(attributes["datacontentencoding"]) == "base64")
    rest = f.map_filter(attributes, lambda k, _: k != "datacontentencoding")
    nothing, no, raw = f.lit(None).cast("binary"), f.lit(False), data.cast("binary")

    def decoded(name: str, text: Column, left: Column) -> Column:
        return let(
            f.try_to_binary(text, f.lit("base64")),
            lambda b: f.when(b.isNull(), _fault(f.lit(f"{name} is not a string of Base64"))).otherwise(
                _judged(attributes, b, no, left)
            ),
        )

    # 0.2 json-format.md section 3.1: Base64 where the media type is none of text; what is no Base64 can only be text
    by_type = f.coalesce(f.try_to_binary(string, f.lit("base64")), string.cast("binary"))
    wrong = _text("data is not a string, although its content type '", content_type, "' is not JSON")
    return (
        f.when(
            binary.isNotNull() & (attributes["specversion"] != "1.0"),
            _fault(_text("version ", attributes["specversion"], " has no data_base64")),
        )
        .when(binary.isNotNull() & (data != ""), _fault(f.lit("data and data_base64 are both there")))
        .when(binary.isNotNull(), decoded("data_base64", binary, attributes))
        .when(data == "", _judged(attributes, nothing, no))
        .when(f.coalesce(encoded, no), decoded("data", string, rest))
        .when(content_type.isNull(), _judged(attributes, raw, f.lit(True)))
        .when(declares_json(content_type), _judged(attributes, raw, no))
        .when(old & string.isNull(), _judged(attributes, raw, f.lit(True)))
        .when(old & ~content_type.rlike(TEXT_TYPE), _judged(attributes, by_type, no))
        .when(string.isNotNull(), _judged(attributes, string.cast("binary"), no))
        .when(data == "null", _judged(attributes, nothing, no))
        .otherwise(_fault(wrong))
    )


# -- what an event must be --------------------------------------------------------------------------------------------


def _judged(attributes: Column, data: Column, json: Column, left: Column | None = None) -> Column:
    """The event where its attributes are valid, `left` being those that it keeps; else the fault."""
    from pyspark.sql import functions as f

    kept = attributes if left is None else left
    found = f.struct(
        f.lit(None).cast("string").alias("fault"), kept.alias("attributes"), data.alias("data"), json.alias("json")
    ).cast(TYPE)
    return let(_why_not(attributes), lambda why: f.when(why.isNull(), found).otherwise(_fault(why)))


def _why_not(attributes: Column) -> Column:
    """Why these are not the attributes of an event; null where they are."""
    from pyspark.sql import functions as f

    version = attributes["specversion"]
    names = f.map_keys(attributes)
    pattern = f.when(version == "1.0", f.lit("^[a-z0-9]+$")).otherwise(f.lit("^[a-z][a-z0-9]*$"))
    faults = [
        f.when(
            version.isNull() & attributes["cloudeventsversion"].isNotNull(),
            f.lit("CloudEvents 0.1 with the names of its release (eventType) is not read from Kafka by Spark"),
        ),
        f.when(version.isNull(), f.lit("required attribute specversion is missing")),
        f.when(~version.isin(*_OPTIONAL), _text("unknown specversion '", version, "'; known are 1.0, 0.3, 0.2, 0.1")),
        first(
            names,
            lambda name: ~f.regexp_like(name, pattern) | (name == "data"),
            lambda name: _text("'", name, "' is not an attribute name: a-z and 0-9 only, and not data"),
        ),
        *(f.when(attributes[n].isNull(), f.lit(f"required attribute {n} is missing")) for n in _REQUIRED),
        *(f.when(attributes[n] == "", f.lit(f"required attribute {n} is empty")) for n in _REQUIRED),
    ]
    for number, optional in _OPTIONAL.items():
        of_it = version == number
        faults += [f.when(of_it & (attributes[n] == ""), f.lit(f"attribute {n} is there but empty")) for n in optional]
        for name in ("source", *optional):
            test = _CHECKS.get(name) or (name == "schemaurl" and _schema_check(number)) or None
            if test:
                wrong = _text(f"{name} '", f.substring(attributes[name], 1, 100), f"' {test[1]}")
                faults.append(f.when(of_it & ~attributes[name].rlike(test[0]), wrong))
    return f.coalesce(*faults)


def _schema_check(version: str) -> tuple[str, str]:
    return _CHECKS["source"] if version == "0.3" else _CHECKS["dataschema"]


def _fault(why: Column) -> Column:
    from pyspark.sql import functions as f

    nothing = [f.lit(None).cast(t).alias(n) for n, t in (("attributes", "map<string,string>"), ("data", "binary"))]
    return f.struct(why.alias("fault"), *nothing, f.lit(False).alias("json")).cast(TYPE)


def _text(*parts: Column | str) -> Column:
    from pyspark.sql import functions as f

    return f.concat(*(f.lit(part) if isinstance(part, str) else part for part in parts))


def as_they_are(headers: Column) -> Column:
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
    return f.coalesce(f.map_from_entries(pairs), f.expr("CAST(map() AS map<string,string>)"))
