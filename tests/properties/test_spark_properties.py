"""What the Spark plugin computes without Spark: times, offsets, ranges, columns, filters."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from gateway_spark.source import offsets
from gateway_spark.source.filters import compiled
from gateway_spark.source.schema import NAMED, Batches, decode, is_json, micros
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.event import Event, text_of
from gateway_core.contract.filters import attributes_filter
from tests.budget import examples

QUICK = examples(60)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda m: timezone(timedelta(minutes=m)))
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES)
SHARDS = st.sampled_from(["0", "1", "2"])
OFFSETS = st.dictionaries(SHARDS, st.integers(1, 50))


@QUICK
@given(TIMES, st.text("0123456789", max_size=5))
def test_a_time_is_its_microseconds(time: datetime, digits: str) -> None:
    text = time.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    zone = time.strftime("%z")
    written = f"{text}.{time.microsecond:06d}{digits}{zone[:3]}:{zone[3:5]}"
    assert micros(written) == (time - EPOCH) // timedelta(microseconds=1)


@QUICK
@given(st.text("0123456789-:TZt.+ é", max_size=30) | st.integers() | st.none() | st.booleans())
def test_any_value_is_a_time_or_none(value: Any) -> None:
    found = micros(value)
    if found is not None:
        assert EPOCH + timedelta(microseconds=found) <= datetime.max.replace(tzinfo=UTC)


@pytest.mark.slow
@QUICK
@given(OFFSETS, OFFSETS, OFFSETS, st.none() | st.integers(1, 60))
def test_micro_batches_move_on_within_their_limit_and_reach_the_end(
    start: dict[str, int], first: dict[str, int], more: dict[str, int], most: int | None
) -> None:
    end = {s: max(start.get(s, 0), first.get(s, 0)) + n for s, n in more.items()}
    at: dict[str, int] = dict(start)
    for _ in range(200):
        new = offsets.advance(at, first, end, most)
        assert all(new[s] >= at.get(s, 0) for s in new)
        assert set(new) == {*at, *end}
        read = sum(max(0, new[s] - max(at.get(s, 0), first.get(s, 0))) for s in new)
        assert most is None or read <= most
        if new == at:
            break
        at = new
    assert all(at[s] == e for s, e in end.items())


@QUICK
@given(OFFSETS, st.dictionaries(SHARDS, st.integers(0, 80)), st.integers(1, 30))
def test_tasks_cover_each_position_once(start: dict[str, int], more: dict[str, int], size: int) -> None:
    end = {s: start.get(s, 0) + n for s, n in more.items()}
    tasks = offsets.ranges(start, end, size)
    covered = [(shard, p) for shard, low, high in tasks for p in range(low, high)]
    assert covered == [(int(s), p) for s in sorted(end) for p in range(start.get(s, 0), end[s])]
    assert all(0 < high - low <= size for _, low, high in tasks)


@QUICK
@given(st.dictionaries(SHARDS, st.integers(0, 99)), st.text('earlist{}0:1,"x', max_size=12))
def test_offsets_as_text_are_read_back_and_other_text_is_refused_by_name(wanted: dict[str, int], text: str) -> None:
    assert offsets.parse(json.dumps(wanted), "startingOffsets") == wanted
    fault = "endingOffsets"
    try:
        found = offsets.parse(text, "endingOffsets")
        assert text in ("earliest", "latest") or found == {str(int(s)): p for s, p in json.loads(text).items()}
    except ValueError as e:
        fault = str(e)
    assert "endingOffsets" in fault


TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ATTRIBUTES = st.dictionaries(
    st.sampled_from([*NAMED, "ext", "flag", "n"]), TEXT | st.booleans() | st.integers(-9, 9), max_size=5
)
ROWS = st.lists(
    st.tuples(
        st.integers(1, 99),
        st.integers(0, 2**60),
        st.integers(0, 3),
        st.none() | st.binary(max_size=3),
        st.tuples(ATTRIBUTES, st.none() | st.sampled_from(["application/json", "a/b+json; x=y", "text/plain"])),
        st.none() | st.binary(max_size=4) | TEXT.map(str.encode),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@examples(40)
@given(ROWS, st.integers(0, 5))
def test_a_batch_has_each_rows_values_in_its_columns(drawn: list[Any], shard: int) -> None:
    import pyarrow as pa

    texts, binaries = [*NAMED, "data_text"], ["data", "key"]
    fields = [(n, pa.string()) for n in texts] + [(n, pa.binary()) for n in binaries]
    more = [("extensions", pa.map_(pa.string(), pa.string())), ("shard", pa.int32()), ("position", pa.int64())]
    schema = pa.schema([*fields, *more, ("received", pa.timestamp("us", "UTC")), ("trace_id", pa.string())])
    wanted = [a | ({"datacontenttype": t} if t else {}) for *_, (a, t), _ in drawn]
    stored = [
        w | ({":trace": f"00-{TRACE_ID}-{'2' * 16}-01"} if row[2] & 2 else {})
        for row, w in zip(drawn, wanted, strict=True)
    ]
    rows = [(p, r, f, k, json.dumps(w).encode(), d) for (p, r, f, k, _, d), w in zip(drawn, stored, strict=True)]
    assert decode(rows) == stored
    made = Batches(schema, shard).build(rows).to_pylist()
    for row, attributes, got in zip(rows, wanted, made, strict=True):
        plain = {n: text_of(v) for n, v in attributes.items()}
        assert {n: got[n] for n in NAMED} == {n: plain.get(n) for n in NAMED}
        assert dict(got["extensions"]) == {n: v for n, v in plain.items() if n not in NAMED}
        assert (got["position"], got["shard"], got["key"], got["data"]) == (row[0], shard, row[3], row[5])
        textual = row[5] is not None and (row[2] & 1 == 1 or is_json(plain.get("datacontenttype")))
        assert (got["data_text"] is not None) == (textual and _is_utf8(row[5]))
        assert got["data_text"] is None or got["data_text"].encode() == row[5]
        since = timedelta(microseconds=row[1] // 1000)
        assert got["received"] == (EPOCH + since if row[1] else None)
        assert got["trace_id"] == (TRACE_ID if row[2] & 2 else None)


@pytest.mark.parametrize(
    ("traceparent", "found"),
    [
        (f"00-{'1a' * 16}-{'2' * 16}-01", "1a" * 16),
        (f"cc-{'1a' * 16}-{'2' * 16}-01-more", "1a" * 16),
        (f"ff-{'1a' * 16}-{'2' * 16}-01", None),
        (f"00-{'0' * 32}-{'2' * 16}-01", None),
        (f"00-{'1A' * 16}-{'2' * 16}-01", None),
        ("", None),
        (7, None),
    ],
)
def test_the_trace_id_is_that_of_the_attribute_where_the_gateway_did_not_trace(traceparent: Any, found: Any) -> None:
    import pyarrow as pa

    row = (1, 0, 0, None, json.dumps({"id": "1", "traceparent": traceparent}).encode(), None)
    batch = Batches(pa.schema([("trace_id", pa.string())]), 0).build([row])
    assert batch.to_pylist() == [{"trace_id": found}]


def _is_utf8(data: bytes | None) -> bool:
    try:
        return data is not None and data.decode() is not None
    except UnicodeDecodeError:
        return False


@pytest.mark.spec("BR-08")
@QUICK
@given(
    st.dictionaries(st.sampled_from(["type", "flag"]), st.sampled_from(["", "a", "true", "1"])),
    st.dictionaries(st.sampled_from(["type", "flag"]), st.sampled_from(["a", "true", True, False, 1])),
)
def test_sparks_workers_filter_as_the_gateway_does(wanted: dict[str, str], attributes: dict[str, Any]) -> None:
    matches = compiled("", json.dumps(wanted) if wanted else "")
    row = (1, 0, 0, None, b"", None)
    expected = attributes_filter(wanted).matches(Event(attributes))
    assert (matches is None or matches(row, attributes)) is expected
