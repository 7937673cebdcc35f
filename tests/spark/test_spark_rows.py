"""The rows of Spark tables, in real queries over a log: what fits a schema, what grows, what is late, comes twice or is
no event, and tables per event type."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gateway_spark.batch import Batches
from gateway_spark.duplicates import CONF
from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from gateway_spark.rows import stream
from gateway_spark.source.compatible import arrow_schema
from gateway_spark.source.schema import DDL
from gateway_spark.source.schema import Batches as schema_batches
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import _parse_datatype_string

from gateway_core.contract.event import Event

pytestmark = [pytest.mark.spec("CARD-03"), pytest.mark.timeout(600)]

Rows = Callable[..., Any]


class Queries:
    """Runs queries over events, each until it has all that is there. The rows are made as those of the log are, but
    come from files, which takes no Python workers."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self._folder = folder
        self._source = folder / "source"
        self._source.mkdir()
        self._position = 0
        self.table = str(folder / "table")
        self.quarantine = f"{self.table}_quarantine"

    def append(self, *events: Event) -> None:
        rows = []
        for e in events:
            self._position += 1
            attributes = msgspec.json.encode(e.attributes)
            rows.append((self._position, e.received_ns, int(e.json_data), e.key, attributes, e.data))
        schema = arrow_schema(_parse_datatype_string(DDL))
        path = self._source / f"{self._position}.parquet"
        pq.write_table(pa.Table.from_batches([schema_batches(schema, 0).build(rows)]), self._source / "_new")
        (self._source / "_new").rename(path)

    def job(self, **options: Any) -> Any:
        schema = options.pop("data_schema", {})
        return Job(
            **{
                "options": {},
                "table": self.table,
                "checkpoint": str(self._folder / "checkpoint"),
                "home": str(self._folder),
                "data_schema": {"*": schema} if isinstance(schema, str) else schema,
                **options,
            }
        )

    def run(self, change: Callable[[Any], Any] = lambda events: events, **options: Any) -> Any:
        """The `Batches` of a query that is through; `change` stands for a code path that gives other rows."""
        job = self.job(**options)
        batches = Batches(job)
        events = self.spark.readStream.schema(DDL).parquet(str(self._source)).selectExpr("*", "string(null) AS fault")
        found = stream(change(events), job)
        query = found.writeStream.foreachBatch(batches.write).option("checkpointLocation", job.checkpoint).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return batches

    def rows(self, table: str = "") -> list[Any]:
        read = self.spark.read.option("mergeSchema", "true").parquet(table or self.table)
        found: list[Any] = read.orderBy("shard", "position").collect()
        return found

    def ids(self, table: str = "") -> list[str]:
        return [r.id for r in self.rows(table)]

    def reasons(self, table: str = "") -> dict[str, str]:
        return {r.id: r.reason for r in self.rows(table or self.quarantine)}


@pytest.fixture
def queries(spark: Any, tmp_path: Path) -> Iterator[Queries]:
    yield Queries(spark, tmp_path)
    for name in CONF:  # what a query sets in its session is not for other tests
        spark.conf.unset(name)


@pytest.fixture
def said(event: Callable[..., Event]) -> Callable[..., Event]:
    """Makes an event with JSON data."""
    return lambda id, data=b"{}", **more: event(id, data, json_data=True, **more)


SCHEMA = """
    n INT, l BIGINT, d DOUBLE, s STRING, b BOOLEAN, t TIMESTAMP, tn TIMESTAMP_NTZ, day DATE, dec DECIMAL(5,2),
    bin BINARY, a ARRAY<INT>, o STRUCT<x INT, in STRUCT<y INT>>, os ARRAY<STRUCT<x INT NOT NULL>>, m MAP<STRING, INT>,
    any VARIANT
"""
NOT_JSON, UNFIT = "data is not JSON", "data does not fit the schema: "
FITS: list[str] = [
    "{}",
    "null",
    '{"unknown": [1, {"x": 2}], "n": 1}',
    '{"n": null, "o": null, "a": null}',
    '{"n": 1, "n": 2}',
    '{"N": "other case"}',
    '{"d": 3}',
    '{"d": 1e999}',
    '{"s": 5}',
    '{"s": {"x": [1]}}',
    '{"s": ""}',
    '{"t": "2026-01-02T03:04:05.123456+02:00"}',
    '{"t": "2026-01-02"}',
    '{"t": 5}',
    '{"tn": "2026-01-02T03:04:05"}',
    '{"dec": 1.005}',
    '{"bin": "AQI="}',
    '{"a": [1, null]}',
    '{"o": {}}',
    '{"os": []}',
    '{"any": [1, {"x": "y"}]}',
    ' \n{"n": 1}\n',
]
FAULTS: dict[str, str] = {
    "": NOT_JSON,
    " ": NOT_JSON,
    '{"n": 1': NOT_JSON,
    '{"n": 1} xyz': NOT_JSON,
    '{"n": 1}{"n": 2}': NOT_JSON,
    '{"n": 1}\n{"n": 2}\n': NOT_JSON,
    '{"n": 1}}': NOT_JSON,
    "{'n': 1}": NOT_JSON,
    "{n: 1}": NOT_JSON,
    '{"n": 01}': NOT_JSON,
    '{"n": 1,}': NOT_JSON,
    '{"d": NaN}': NOT_JSON,
    '{"x": ' + "[" * 1500 + "]" * 1500 + "}": NOT_JSON,
    "[]": UNFIT + "it is not an object: []",
    '[{"n": 1}]': UNFIT + 'it is not an object: [{"n":1}]',
    "5": UNFIT + "it is not an object: 5",
    '"text"': UNFIT + "it is not an object: text",
    '{"n": "3"}': UNFIT + "field n is not INT: 3",
    '{"n": 3.0}': UNFIT + "field n is not INT: 3.0",
    '{"n": 3000000000}': UNFIT + "field n is not INT: 3000000000",
    '{"n": true}': UNFIT + "field n is not INT: true",
    '{"n": ""}': UNFIT + "field n is not INT: ",
    '{"n": 1, "n": "x"}': UNFIT.rstrip(": "),
    '{"l": 9223372036854775808}': UNFIT + "field l is not BIGINT: 9223372036854775808",
    '{"d": "3.5"}': UNFIT + "field d is not DOUBLE: 3.5",
    '{"d": "NaN"}': UNFIT + "field d is not DOUBLE: NaN",
    '{"b": 1}': UNFIT + "field b is not BOOLEAN: 1",
    '{"b": "true"}': UNFIT + "field b is not BOOLEAN: true",
    '{"t": "yesterday"}': UNFIT + "field t is not TIMESTAMP: yesterday",
    '{"t": "2026-13-45T00:00:00Z"}': UNFIT + "field t is not TIMESTAMP: 2026-13-45T00:00:00Z",
    '{"tn": "2026-01-02T03:04:05Z"}': UNFIT + "field tn is not TIMESTAMP_NTZ: 2026-01-02T03:04:05Z",
    '{"day": "2026-02-30"}': UNFIT + "field day is not DATE: 2026-02-30",
    '{"dec": 1234.5}': UNFIT + "field dec is not DECIMAL(5,2): 1234.5",
    '{"bin": "???"}': UNFIT + "field bin is not BINARY: ???",
    '{"a": 5}': UNFIT + "field a is not ARRAY<INT>: 5",
    '{"a": [1, "x"]}': UNFIT + 'field a is not ARRAY<INT>: [1,"x"]',
    '{"o": 5}': UNFIT + "field o is not an object: 5",
    '{"o": {"x": "y"}}': UNFIT + "field o.x is not INT: y",
    '{"o": {"in": {"y": []}}}': UNFIT + "field o.in.y is not INT: []",
    '{"o": {"in": "y"}}': UNFIT + "field o.in is not an object: y",
    '{"os": [{"x": 1}, {"x": "y"}]}': UNFIT + 'field os is not ARRAY<STRUCT<x INT NOT NULL>>: [{"x":1},{"x":"y"}]',
    '{"os": [{"x": 1}, {}]}': UNFIT + "field os[].x is missing",
    '{"m": {"x": "y"}}': UNFIT + 'field m is not MAP<STRING, INT>: {"x":"y"}',
    '{"n": "' + "x" * 100 + '"}': UNFIT + "field n is not INT: " + "x" * 80 + "…",
}


def test_what_fits_a_schema_and_what_does_not(queries: Queries, event: Any, said: Any) -> None:
    """Each kind of JSON, well formed or not, against each kind of type."""
    fits = {f"fits {text}": said(f"fits {text}", text.encode()) for text in FITS}
    faults = {f"bad {text}": said(f"bad {text}", text.encode()) for text in FAULTS}
    queries.append(*fits.values(), *faults.values(), event("none", None), event("no JSON type"))
    queries.append(said("no UTF-8", b'{"s": "\xff"}'))
    batches = queries.run(data_schema=SCHEMA)
    assert queries.reasons() == {
        **{f"bad {text}": reason for text, reason in FAULTS.items()},
        "no JSON type": NOT_JSON,
        "no UTF-8": NOT_JSON,
    }
    found = {r.id: r for r in queries.rows()}
    assert [*found] == [*fits, "none"]
    assert batches.quarantined == len(FAULTS) + 2

    def value(text: str) -> dict[str, Any]:
        return {k: v for k, v in found[f"fits {text}"].data.asDict(True).items() if v is not None}

    assert found["none"].data is found["none"].data_raw is found["fits null"].data is None
    assert bytes(found["fits {}"].data_raw) == b"{}"
    assert value('{"n": 1, "n": 2}') == {"n": 2}
    assert value('{"N": "other case"}') == {}
    assert value('{"d": 1e999}') == {"d": float("inf")}
    assert value('{"s": {"x": [1]}}') == {"s": '{"x":[1]}'}
    assert value('{"a": [1, null]}') == {"a": [1, None]}
    assert value(' \n{"n": 1}\n') == {"n": 1}


def test_a_required_field_that_is_missing_is_told(queries: Queries, said: Any) -> None:
    queries.append(said("a", b'{"n": 1}'), said("b", b'{"o": {"x": 1}}'), said("c", b'{"n": 1, "o": {}}'))
    queries.append(said("d", b'{"n": null}'), said("e", b'{"n": 1, "m": {"k": {}}}'))
    queries.run(data_schema="n INT NOT NULL, o STRUCT<x INT NOT NULL>, m MAP<STRING, STRUCT<y INT NOT NULL>>")
    assert queries.ids() == ["a"]
    assert queries.reasons() == {
        "b": UNFIT + "field n is missing",
        "c": UNFIT + "field o.x is missing",
        "d": UNFIT + "field n is missing",
        "e": UNFIT + "field m[].y is missing",
    }


@pytest.mark.area(name="spark_more")
def test_an_inferred_schema_grows_and_refuses_what_conflicts(queries: Queries, said: Any) -> None:
    queries.append(said("none", None), said("empty"))
    queries.run(data_schema="infer")
    assert queries.rows()[0].data_raw is None
    assert "data" not in queries.rows()[0], "there is no column of a structure without fields"

    queries.append(said("a", b'{"n": 1, "o": {"x": "y"}, "mixed": 1, "nothing": null, "l": []}'))
    queries.append(said("b", b'{"mixed": "m", "o": {}, "l": [{"z": true}], "n": 2.5}'), said("c", b"[1]"))
    queries.run(data_schema="infer")
    queries.append(said("d", b'{"n": "text"}'), said("e", b'{"n": 3, "o": {"new": 4}, "l": [{"w": 5}], "more": 6}'))
    queries.run(data_schema="infer")
    queries.append(said("f", b'{"more": 7}'))
    queries.run(data_schema="infer", evolve=False, infer_sample=1)
    queries.append(said("g", b'{"more": 8, "late": 9}'))  # it has looked at `f` and has its sample
    queries.run(data_schema="infer", evolve=False, infer_sample=1)

    rows = {r.id: r.data and r.data.asDict(True) for r in queries.rows()}
    nothing = dict.fromkeys(("l", "mixed", "more", "n", "o"))
    assert rows == {
        "none": None,
        "empty": None,
        "a": {**nothing, "n": 1.0, "o": {"x": "y", "new": None}, "mixed": "1", "l": []},
        "b": {**nothing, "n": 2.5, "o": {"x": None, "new": None}, "mixed": "m", "l": [{"z": True, "w": None}]},
        "e": {**nothing, "n": 3.0, "o": {"x": None, "new": 4}, "l": [{"z": None, "w": 5}], "more": 6},
        "f": {**nothing, "more": 7},
        "g": {**nothing, "more": 8},
    }
    assert bytes(queries.rows()[-1].data_raw) == b'{"more": 8, "late": 9}'
    assert queries.reasons() == {
        "c": UNFIT + "it is not an object: [1]",
        "d": UNFIT + "field n is not DOUBLE: text",
    }


@pytest.mark.area(name="spark_more")
def test_a_schema_that_the_user_changes_may_grow_only(queries: Queries, said: Any) -> None:
    queries.append(said("a", b'{"n": 1, "s": "x"}'))
    queries.run(data_schema="n INT")
    queries.append(said("b", b'{"n": 1, "s": "x"}'))
    queries.run(data_schema="n INT, s STRING")
    assert [tuple(r.data) for r in queries.rows()] == [(1, None), (1, "x")]
    with pytest.raises(SparkFault, match=r"data\.n was INT and now is DOUBLE: .* choose another path and checkpoint"):
        queries.run(data_schema="n DOUBLE")
    with pytest.raises(SparkFault, match="deduplicate_s was added after"):
        queries.run(data_schema="n INT", deduplicate_s=5.0)
    queries.append(said("c", b'{"s": "y"}'))
    queries.run(data_schema="s STRING")
    with pytest.raises(SparkFault, match=r"data\.n was INT"):
        queries.run(data_schema="n DOUBLE")
    assert queries.ids() == ["a", "b", "c"]


def test_late_events_are_told_apart_and_columns_chosen(queries: Queries, said: Any) -> None:
    at = 1_767_323_045_000_000_000  # 2026-01-02T03:04:05Z
    queries.append(
        said("on time", time="2026-01-02T03:04:00Z", received_ns=at, key=b"k"),
        said("late", time="2026-01-02T03:03:59.999999Z", received_ns=at),
        said("early", time="2027-01-01T00:00:00Z", received_ns=at),
        said("timeless", received_ns=at, traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        said("never received", time="2020-01-01T00:00:00Z"),
    )
    columns = ["id", "key", "trace_id", "data_raw", "shard", "position", "received"]
    queries.run(data_schema="n INT", late_s=5.0, columns=columns, partition_by=["date", "hour"])
    rows = queries.rows()
    assert rows[0].asDict().keys() == {*columns, "date", "hour"}
    assert [(r.id, str(r.date), r.hour) for r in rows] == [
        ("on time", "2026-01-02", 3),
        ("early", "2027-01-01", 0),
        ("timeless", "2026-01-02", 3),
        ("never received", "2020-01-01", 0),
    ]
    assert (bytes(rows[0].key), rows[0].position, rows[2].trace_id[:4]) == (b"k", 1, "4bf9")
    assert queries.reasons() == {"late": "late: it arrived more than 5 s after its time"}
    refused = queries.rows(queries.quarantine)[0]
    assert (bytes(refused.data), refused.data_text, refused.type, refused.position) == (b"{}", "{}", "made", 2)


def broken(events: Any) -> Any:
    """Stands for a channel with rows that are no event: they have neither source nor id."""
    from pyspark.sql import functions as f

    no_event = f.col("subject").eqNullSafe("broken")
    blank = {n: f.when(~no_event, f.col(n)) for n in ("id", "source", "type")}
    return events.withColumns({**blank, "fault": f.when(no_event, "it is no event")})


def test_duplicates_are_dropped_whatever_crashes(
    queries: Queries, said: Any, wait: Callable[..., Any], tmp_path: Path
) -> None:
    options = {"data_schema": "n INT", "deduplicate_s": 3600.0}
    broke = [said("broken", subject="broken"), said("broken", subject="broken")]
    queries.append(said("a"), said("a"), said("a", source="/other"), said("b"), said("bad", b"no"), *broke)
    # old by its time, twice: nothing is late for the memory, and nothing but duplicates is dropped
    queries.append(said("old", time="1999-01-01T00:00:00Z"), said("old", time="1999-01-01T00:00:00Z"))
    batches = queries.run(broken, **options)
    assert [(r.id, r.source) for r in queries.rows()] == [
        ("a", "/test"),
        ("a", "/other"),
        ("b", "/test"),
        ("old", "/test"),
    ]
    refused = [(r.id, r.position, r.reason[:13]) for r in queries.rows(queries.quarantine)]
    assert refused == [("bad", 5, "data is not J"), (None, 6, "it is no even"), (None, 7, "it is no even")]
    assert batches.quarantined == 3

    # a batch that has reached the table when it is cut short: it is repeated, and drops the same
    queries.append(said("b"), said("c"), said("bad", b"no"), said("bad2", b"no"))
    aside = tmp_path / "aside"
    shutil.move(queries.quarantine, aside)
    Path(queries.quarantine).write_text("in the way")
    with pytest.raises(StreamingQueryException):
        queries.run(broken, **options)
    assert queries.ids()[4:] == ["c"]
    Path(queries.quarantine).unlink()
    shutil.move(aside, queries.quarantine)
    queries.append(said("c"), said("d"))
    queries.run(broken, **options)
    assert queries.ids()[4:] == ["c", "d"]
    assert [r.id for r in queries.rows(queries.quarantine)] == ["bad", None, None, "bad2"]
    queries.append(said("a"), said("d"), said("e"), *broke)
    queries.run(broken, **options)
    assert queries.ids()[4:] == ["c", "d", "e"]
    assert len(queries.rows(queries.quarantine)) == 6


@pytest.mark.area(name="spark_more")
def test_what_came_before_the_window_is_no_duplicate(queries: Queries, said: Any, wait: Callable[..., Any]) -> None:
    for id in ("a", "b", "c"):
        queries.append(said(id))
        queries.run(deduplicate_s=0.5)
        end = time.monotonic() + 0.6
        wait(lambda end=end: time.monotonic() > end, "the end of the window")
    queries.append(said("a"), said("a"))
    queries.run(deduplicate_s=0.5)
    assert queries.ids() == ["a", "b", "c", "a"]


def test_each_row_is_there_once_when_a_batch_was_cut_between_its_tables(queries: Queries, said: Any) -> None:
    queries.append(said("good", b'{"n": 1}'), said("bad", b'{"n": "x"}'))
    Path(queries.quarantine).write_text("in the way")
    for _ in range(2):
        with pytest.raises(StreamingQueryException):
            queries.run(data_schema="n INT")
    assert queries.ids() == ["good"]
    Path(queries.quarantine).unlink()
    assert queries.run(data_schema="n INT").quarantined == 1
    assert queries.run(data_schema="n INT").quarantined == 0
    assert queries.ids() == ["good"]
    assert [*queries.reasons()] == ["bad"]


@pytest.mark.area(name="spark_more")
def test_huge_events_fit_and_are_refused_as_others_are(queries: Queries, said: Any) -> None:
    text = "x" * 2**20
    queries.append(said("text", json.dumps({"s": text, "n": 1}).encode()), said("bytes", b"\x00" * 2**20))
    queries.append(
        said("wide", json.dumps({f"k{n}": n for n in range(60_000)}).encode()), said("unfit", b'"%s"' % text.encode())
    )
    queries.run(data_schema="infer")
    rows = {r.id: r for r in queries.rows()}
    assert [*rows] == ["text", "wide"]
    assert rows["text"].data.s == text
    assert [*rows["wide"].data.asDict()] == ["n", "s"], "of an event with so many fields none is inferred"
    assert len(rows["wide"].data_text) > 600_000
    reasons = queries.reasons()
    assert reasons == {"bytes": NOT_JSON, "unfit": UNFIT + "it is not an object: " + "x" * 80 + "…"}


def test_each_type_has_its_table(queries: Queries, said: Any, tmp_path: Path) -> None:
    queries.table = str(tmp_path / "tables" / "{type}" / "rows")
    options = {
        "data_schema": {"order/1": "n INT", "*": "infer"},
        "max_tables": 3,
        "partition_by": ["date"],
    }
    queries.append(
        said("1", b'{"n": 1}', type="order/1"),
        said("2", b'{"n": "x"}', type="order/1"),
        said("3", b'{"n": "text"}', type=".."),
        said("4", b'{"m": true}', type="other"),
        said("5", type="zz"),
        said("6", type="zy"),
        said("7", subject="broken"),
    )
    in_the_way = tmp_path / "tables" / "othe%72"  # between one type's table and the next
    in_the_way.parent.mkdir()
    in_the_way.write_text("in the way")
    with pytest.raises(StreamingQueryException):
        queries.run(broken, **options)
    in_the_way.unlink()
    assert queries.run(broken, **options).quarantined == 4
    queries.append(
        said("8", b'{"n": "y", "new": 1}', type=".."), said("9", type="zz"), said("10", b'{"m": 0}', type="other")
    )
    assert queries.run(broken, **options).quarantined == 2

    def there(name: str, quarantine: bool = False) -> list[Any]:
        place = str(tmp_path / "tables" / name / "rows") + ("_quarantine" if quarantine else "")
        return [(r.id, r.reason if quarantine else r.data.asDict()) for r in queries.rows(place)]

    assert sorted(p.name for p in (tmp_path / "tables").iterdir()) == [
        "%2E%2E",
        "order%2F1",
        "othe%72",
        "other",
        "unknown",
    ]
    assert there("order%2F1") == [("1", {"n": 1})]
    assert there("order%2F1", quarantine=True) == [("2", UNFIT + "field n is not INT: x")]
    assert there("%2E%2E") == [("3", {"n": "text", "new": None}), ("8", {"n": "y", "new": 1})]
    assert there("othe%72") == [("4", {"m": True})]
    assert there("othe%72", quarantine=True) == [("10", UNFIT + "field m is not BOOLEAN: 0")]
    beyond = "no table for this type: there are 3 already (max_tables)"
    assert there("other", quarantine=True) == [("5", beyond), ("6", beyond), ("9", beyond)]
    assert there("unknown", quarantine=True) == [(None, "it is no event")]


@pytest.mark.area(name="spark_more")
def test_all_that_is_refused_can_go_to_one_table(queries: Queries, said: Any, tmp_path: Path) -> None:
    queries.table = str(tmp_path / "tables" / "{type}")
    queries.quarantine = str(tmp_path / "refused")
    queries.append(
        said("1", b"x", type="a"), said("2", b"x", type="b"), said("3", type="b"), said("4", subject="broken")
    )
    queries.run(broken, data_schema="n INT", quarantine=queries.quarantine, max_tables=1)
    reasons = [(r.type, r.reason) for r in queries.rows(queries.quarantine)]
    beyond = "no table for this type: there are 1 already (max_tables)"
    assert reasons == [("a", NOT_JSON), ("b", beyond), ("b", beyond), (None, "it is no event")]
    assert not [*queries.rows(str(tmp_path / "tables" / "a"))]


@pytest.mark.spec("SAFE-86")
@pytest.mark.parametrize("by_type", [False, pytest.param(True, marks=pytest.mark.full)])
def test_deeply_nested_data_does_not_stop_an_inferred_table(queries: Queries, said: Any, by_type: bool) -> None:
    def objects(depth: int) -> bytes:
        return b'{"a": ' * depth + b"1" + b"}" * depth

    deep = {
        "150": objects(150),
        "250": objects(250),
        "600": objects(600),
        "arrays": b'{"l": ' + b"[" * 700 + b"]" * 700 + b', "s": "}]"}',
        "strings": b'{"x": ' * 30 + rb'"\"}}}}}}"' + b"}" * 30,
        "20,000": objects(20_000),
    }
    flat = json.dumps({"flat": [{"n": n, "s": '{"\\'} for n in range(100)]}).encode()
    queries.append(said("before", b'{"n": 1}'), *(said(id, data) for id, data in deep.items()), said("flat", flat))
    queries.append(said("behind", b'{"n": 2, "new": true}'))
    if by_type:
        queries.table = str(Path(queries.table).with_name("{type}"))
    batches = queries.run(data_schema="infer")
    table = queries.table.replace("{type}", "made")
    rows = {r.id: r for r in queries.rows(table)}
    refused = queries.reasons(f"{table}_quarantine")
    assert {*rows, *refused} == {"before", *deep, "flat", "behind"}
    assert refused == {"20,000": NOT_JSON}
    assert set(rows["behind"].data.asDict()) == {"n", "new", "flat"}
    assert rows["flat"].data.flat[99].n == 99
    assert [bytes(rows[id].data_raw) for id in deep if id in rows] == [deep[id] for id in deep if id in rows]
    (note,) = batches.notes
    assert note.startswith("6 events of ")
    assert "have more than 20 levels or 1000 fields: no columns are inferred from them" in note
    assert "the first is at shard 0, position 2" in note


@pytest.mark.spec("SAFE-87")
def test_of_fields_that_differ_in_case_only_the_frequent_one_gets_the_column_and_it_is_told(
    queries: Queries, said: Any
) -> None:
    queries.append(
        said("A", b'{"A": 2, "o": {"X": 1}}'), *(said(f"a{n}", b'{"a": 1, "o": {"x": 1}}') for n in range(5))
    )
    batches = queries.run(data_schema="infer")
    queries.append(said("again", b'{"A": 3, "a": 4}'))
    batches.notes += queries.run(data_schema="infer").notes
    rows = {r.id: r.data.asDict(True) for r in queries.rows()}
    assert rows["a1"] == {"a": 1, "o": {"x": 1}}
    assert rows["A"] == {"a": None, "o": {"x": None}}
    assert rows["again"] == {"a": 4, "o": None}
    assert [note.split(":")[0] for note in batches.notes] == [
        "batch 0 has data with the field data.A, and a column data.a",
        "batch 0 has data with the field data.o.X, and a column data.o.x",
        "batch 1 has data with the field data.A, and a column data.a",
    ]


@pytest.mark.spec("SAFE-87")
def test_a_time_that_the_column_does_not_hold_is_kept_as_text(queries: Queries, said: Any) -> None:
    times = {
        "plain": "2026-01-02T03:04:05Z",
        "micros": "2026-01-02T03:04:05.123456000+01:00",
        "nanos": "2026-01-02T03:04:05.123456789Z",
        "none": "yesterday",
    }
    queries.append(*(said(id, time=text, ext="x") for id, text in times.items()), said("timeless"))
    queries.run()
    assert {r.id: r.extensions.get("time") for r in queries.rows()} == {
        **dict.fromkeys(("plain", "micros", "timeless")),
        "nanos": times["nanos"],
        "none": "yesterday",
    }
    assert queries.rows()[2].time.microsecond == 123456
