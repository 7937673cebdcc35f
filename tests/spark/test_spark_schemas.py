"""Schemas of data without Spark: DDL, JSON Schema, growth, names of tables, and what the config says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway_spark import naming
from gateway_spark.config import SparkSinkConfig, schemas
from gateway_spark.data import json_schema
from gateway_spark.data import types as data_types
from gateway_spark.data.evolution import MAX_FIELDS, conflict, grow, merge, observed, size
from pydantic import ValidationError

parse, render = data_types.parse, data_types.render


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("dest STRING, delay DOUBLE", ""),
        ("dest string,delay: double not null comment 'in minutes, NOT null'", "dest STRING, delay DOUBLE NOT NULL"),
        ("a INT, b STRUCT<c: ARRAY<STRUCT<d BIGINT NOT NULL>>, e MAP<STRING, DATE>>", None),
        ("`a b``c` TIMESTAMP, ünï LONG", "`a b``c` TIMESTAMP, `ünï` BIGINT"),
        ("d DECIMAL, e NUMERIC(5), f dec(38 , 2)", "d DECIMAL(10,0), e DECIMAL(5,0), f DECIMAL(38,2)"),
        ("ARRAY<STRUCT<a INT>>", ""),
        ("STRUCT<a INT>", "a INT"),
        ("DOUBLE", ""),
        ("MAP<STRING, VARIANT>", ""),
    ],
)
def test_ddl_is_read_and_written(text: str, same: str | None) -> None:
    found = parse(text)
    assert render(found) == (same or text.replace(":", ""))
    assert parse(render(found)) == found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no field"),
        ("a", "no type A"),
        ("a STRIN, b INT", "field a: JSON data has no type STRIN"),
        ("a INT b INT", "'b'"),
        ("a INT,, b INT", "',' is not the name of a field"),
        ("a STRUCT<b ARRAY<INTERVAL>>", "field b: JSON data has no type INTERVAL"),
        ("a STRUCT<b INT", "missing at the end"),
        ("a INT>", "'>'"),
        ("a INT, A STRING", "field A occurs twice"),
        ("a MAP<INT, INT>", "keys of a MAP"),
        ("a DECIMAL(39,2)", "38 digits"),
        ("a DECIMAL(3,5)", "38 digits"),
        ("a INT NOT", "missing at the end"),
        ("a OBJECT<b INT>, c VOID", "no type OBJECT"),
        ("a STRUCT<>", "at least one field"),
        ("`` INT", "each needs a name"),
        ("a INT; DROP TABLE b", "'; DROP TABLE b'"),
    ],
)
def test_faults_of_ddl_are_told(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as e:
        parse(text)
    assert fault in str(e.value)


ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id", "note", "lines"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "note": {"type": ["string", "null"], "maxLength": 10},
        "price": {"type": "number"},
        "mixed": {"type": ["string", "integer"]},
        "paid": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "mail": {"type": "string", "format": "email"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "state": {"enum": ["new", "done", None]},
        "kind": {"const": "order"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "person": {"allOf": [{"$ref": "#/$defs/named"}, {"properties": {"age": {"type": "integer"}}}]},
        "place": {"anyOf": [{"$ref": "#/$defs/named"}, {"type": "null"}]},
        "either": {"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "number"}}}]},
        "never": False,
    },
    "$defs": {
        "line": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}},
        "named": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    },
}


def test_a_json_schema_becomes_ddl(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps(ORDER))
    assert json_schema.ddl(path).split(", ") == [
        "id BIGINT NOT NULL",
        "note STRING",
        "price DOUBLE",
        "mixed STRING",
        "paid BOOLEAN",
        "at TIMESTAMP",
        "day DATE",
        "mail STRING",
        "raw BINARY",
        "state STRING",
        "kind STRING",
        "lines ARRAY<STRUCT<sku STRING NOT NULL>> NOT NULL",
        "tags MAP<STRING",
        "STRING>",
        "person STRUCT<name STRING NOT NULL",
        "age BIGINT>",
        "place STRUCT<name STRING NOT NULL>",
        "either STRUCT<a BIGINT",
        "b DOUBLE>",
    ]
    parse(json_schema.ddl(path))


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({}, "# does not define the type of the value"),
        ({"properties": {"a": True}}, "#/properties/a does not define"),
        ({"type": "object"}, "# is an object, but has neither"),
        ({"properties": {"a": {"type": "array"}}}, "#/properties/a is an array, but `items`"),
        ({"properties": {"a": {"type": "strin"}}}, "#/properties/a/type: there is no type 'strin'"),
        ({"properties": {"a": {"type": ["string", "object"], "properties": {"b": {"type": "null"}}}}}, "one type"),
        ({"$ref": "other.json#/x"}, "references must be within the same file"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "refers to #/$defs/b, which does not exist"),
        ({"properties": {"a": {"$ref": "#"}}}, "refers to itself"),
        ({"properties": {"a": {"type": "string"}, "A": {"type": "string"}}}, "A occurs twice"),
        ({"type": "null"}, "nothing but null"),
        ({"allOf": [{"type": "integer"}, {"type": "string"}]}, "two types for one value"),
    ],
)
def test_a_schema_whose_shape_is_unknown_is_refused(schema: Any, fault: str) -> None:
    with pytest.raises(json_schema.SchemaFault) as e:
        json_schema.convert(schema)
    assert fault in str(e.value)


def test_what_was_observed_becomes_columns() -> None:
    seen = (
        "OBJECT<a: BIGINT, A: STRING, b: VARIANT, c: VOID, d: ARRAY<VOID>, e: OBJECT<>, f: DECIMAL(20,1), `g h`: INT,"
    )
    assert render(observed(seen + " i: ARRAY<OBJECT<j: BOOLEAN, k: VOID>>, ``: INT>")) == (
        "a BIGINT, b STRING, f DOUBLE, i ARRAY<STRUCT<j BOOLEAN>>"
    )
    assert [render(observed(t)) for t in ("VOID", "ARRAY<BIGINT>", "VARIANT", None)] == ["STRUCT<>"] * 4


def test_a_schema_grows_by_fields_at_any_depth_and_never_changes_one() -> None:
    known = parse("a BIGINT, b STRUCT<c INT NOT NULL>, d ARRAY<STRUCT<e INT>>, f MAP<STRING, STRUCT<g INT>>")
    seen = parse("z INT, A STRING, b STRUCT<x INT>, d ARRAY<STRUCT<y DATE>>, f MAP<STRING, STRUCT<h INT>>")
    grown = merge(known, seen)
    assert render(grown) == (
        "a BIGINT, b STRUCT<c INT NOT NULL, x INT>, d ARRAY<STRUCT<e INT, y DATE>>, "
        "f MAP<STRING, STRUCT<g INT, h INT>>, z INT"
    )
    assert conflict(known, grown) == conflict(grown, known) == ""
    assert conflict(known, seen) == "data.a was BIGINT and now is STRING"
    assert conflict(known, parse("d ARRAY<STRUCT<e DATE>>")) == "data.d[].e was INT and now is DATE"
    assert conflict(known, parse("b INT")) == "data.b was STRUCT<c INT NOT NULL> and now is INT"


@pytest.mark.usefixtures("real_time")
def test_keys_that_are_values_make_no_endless_table() -> None:
    many = parse(", ".join(f"k{n} INT" for n in range(3 * MAX_FIELDS)))
    grown = grow(parse("a INT"), many)
    assert size(grown) == MAX_FIELDS
    assert grow(grown, parse("b INT")) == grown


@pytest.mark.parametrize(
    ("event_type", "name"),
    [
        ("com.example.order_Placed-1", "com.example.order_Placed-1"),
        ("a/b", "a%2Fb"),
        ("a b=ü~{}", "a%20b%3D%C3%BC%7E%7B%7D"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("_hidden", "%5Fhidden"),
        ("ends.", "ends%2E"),
        ("other", "othe%72"),
        ("Unknown", "Unknow%6E"),
        ("a_quarantine", "a_quarantin%65"),
        ("nul.txt", "%6Eul.txt"),
        ("a%2Fb", "a%252Fb"),
    ],
)
def test_a_table_has_a_name_that_is_safe_and_says_its_type(event_type: str, name: str) -> None:
    assert naming.name_of(event_type) == name
    assert naming.type_of(name) == event_type


def test_names_of_tables_differ_where_types_do() -> None:
    long = ["x" * 300, "x" * 301, "ü" * 300]
    names = [naming.name_of(t) for t in long]
    assert len({*names}) == 3
    assert max(len(n) + len(naming.QUARANTINE) for n in names) < 200
    assert naming.name_of("Order", ["order"]).startswith("Order-")
    assert naming.quarantine_of("t/{type}", "", "a") == "t/a_quarantine"
    assert naming.quarantine_of("t/{type}", "bad", "a") == "bad"


def config(**options: Any) -> SparkSinkConfig:
    return SparkSinkConfig(**{"path": "t", **options})


def test_the_config_gives_each_type_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"properties": {"a": {"type": "integer"}}, "required": ["a"]}')
    assert schemas(config()) == {}
    assert schemas(config(data_schema="infer")) == {"*": "infer"}
    assert schemas(config(json_schema=str(path))) == {"*": "a BIGINT NOT NULL"}
    both = config(path="t/{type}", data_schema={"x": "b INT", "*": "infer"}, json_schema={"y": str(path)})
    assert schemas(both) == {"x": "b INT", "*": "infer", "y": "a BIGINT NOT NULL"}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"data_schema": "a STRIN"}, "no type STRIN"),
        ({"path": "{type}", "data_schema": {"x": "a STRIN"}}, "x: field a: "),
        ({"data_schema": {"x": "a INT"}}, "put {type} in `path`"),
        ({"data_schema": "a INT", "json_schema": "good.json"}, "either `data_schema` or `json_schema`"),
        ({"json_schema": "gone.json"}, "can't read gone.json: No such file"),
        ({"json_schema": "bad.json"}, "bad.json:2:4 is not JSON"),
        ({"json_schema": "open.json"}, "open.json: # is an object, but"),
        ({"columns": ["id", "bid"]}, "no column 'bid'"),
        ({"columns": ["data_raw"]}, "use `data`"),
        ({"partition_by": ["day"]}, "no column 'day'"),
        ({"quarantine": "t"}, "the table itself"),
        ({"quarantine": "t/{type}"}, "`path` does not"),
    ],
)
def test_faults_of_schemas_are_found_in_the_config(
    options: dict[str, Any], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.json").write_text('{"properties": {"a": {"type": "integer"}}}')
    Path("bad.json").write_text('{\n"a"')
    Path("open.json").write_text('{"type": "object"}')
    with pytest.raises(ValidationError) as e:
        config(**options)
    assert fault in str(e.value)
