"""The columns of the data source and the tables, and their conversion from the log's rows."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from gateway_core.contract.event import text_of

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[int, int, int, bytes | None, bytes, bytes | None]
"""A row of the log: position, received (ns), flags, key, attributes (JSON text), data."""

DDL = """
    specversion string, id string, source string, type string, subject string, time timestamp,
    datacontenttype string, dataschema string, extensions map<string,string>,
    data binary, data_text string, key binary, shard int, position bigint, received timestamp, trace_id string
"""
"""All columns, in order. `time` is null if it can't be parsed; `extensions` holds every other attribute as text, and
that of `time` if the column lacks part of it; `data` is null if the event has no data, and empty if its data is empty;
`data_text` is the data if it is JSON in valid UTF-8, else null; (`shard`, `position`) is the event's unique position in
the log; `trace_id` is the trace that the gateway continued with this event, else the one in its attribute
`traceparent`, else null."""

NAMED = ("specversion", "id", "source", "type", "subject", "datacontenttype", "dataschema")
JSON_DATA = 1  # the log's flag: the data is JSON although `datacontenttype` does not say so
TRACED = 2  # the log's flag: the attributes have an extra member, the trace context
TRACE = ":trace"

log = logging.getLogger("tidegate.spark")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRACE_ID = re.compile("(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_FINER = re.compile(r"\.[0-9]{6}[0-9]*[1-9]", re.ASCII)
_MICROS = len("2026-01-02T03:04:05.123456Z")
_decode_all = msgspec.json.Decoder(list[dict[str, Any]]).decode


@lru_cache(4096)
def is_json(content_type: str | None) -> bool:
    """Whether a content type is JSON: the subtype is `json` or ends in `+json` (CloudEvents 1.0.2 json-format.md
    section 3.1)."""
    if not content_type or not isinstance(content_type, str):
        return False
    subtype = content_type.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def micros(text: Any) -> int | None:
    """Microseconds since 1970 of an RFC 3339 time, or None. Digits after the sixth are dropped; a leap second counts as
    the second after it (Spark has none)."""
    if not isinstance(text, str):
        return None
    extra = timedelta(0)
    if text[16:19] == ":60":
        text, extra = f"{text[:16]}:59{text[19:]}", timedelta(seconds=1)
    try:
        when = msgspec.convert(_cut(text), datetime)
        return (when - _EPOCH + extra) // timedelta(microseconds=1) if when.tzinfo else None
    except (msgspec.ValidationError, OverflowError):
        return None


def _cut(text: str) -> str:
    """The time with at most six digits of its seconds' fraction."""
    if text[19:20] != ".":
        return text
    end = 20
    while text[end : end + 1].isdigit():
        end += 1
    return text[: min(end, 26)] + text[end:]


class Batches:
    """Builds Arrow record batches from the rows of one shard, with the schema's columns."""

    def __init__(self, schema: pa.Schema, shard: int) -> None:
        self._schema = schema
        self._shard = shard
        self._names: list[str] = schema.names
        self._wants = frozenset(self._names)

    def build(self, rows: Sequence[Row], attributes: Sequence[dict[str, Any]] | None = None) -> pa.RecordBatch:
        """One batch of these rows; `attributes` are theirs, if already decoded."""
        import pyarrow as pa

        columns = self._columns(rows, decode(rows) if attributes is None else attributes)
        return pa.RecordBatch.from_arrays([columns[name] for name in self._names], schema=self._schema)

    def _columns(self, rows: Sequence[Row], dicts: Sequence[dict[str, Any]]) -> dict[str, pa.Array]:
        import pyarrow as pa

        positions, received, flags, keys, _, data = zip(*rows, strict=True)
        traces = _traces(dicts, flags)
        named = {name: _texts([d.pop(name, None) for d in dicts]) for name in NAMED}
        times = [d.pop("time", None) for d in dicts]
        moments = _times(times)
        for n, text in _lost_times(times, moments):
            dicts[n]["time"] = text
        payload = pa.array(data, pa.binary())
        columns = {
            **named,
            "time": moments if "time" in self._wants else None,
            "data": payload,
            "key": pa.array(keys, pa.binary()),
            "shard": pa.array([self._shard] * len(rows), pa.int32()),
            "position": pa.array(positions, pa.int64()),
            "received": _received(received),
        }
        if "extensions" in self._wants:
            columns["extensions"] = _extensions(dicts)
        if "trace_id" in self._wants:
            columns["trace_id"] = _trace_ids(dicts, traces)
        if "data_text" in self._wants:
            columns["data_text"] = _json_texts(payload, _json_mask(named["datacontenttype"], flags))
        return columns


def decode(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The attributes of each row. One parse for all of them: it is the largest part of the work. Raises
    `msgspec.DecodeError`."""
    return _decode_all(b"[" + b",".join([row[4] for row in rows]) + b"]")


def decode_events(rows: Sequence[Row]) -> tuple[Sequence[Row], list[dict[str, Any]]]:
    """The rows that are events, with their attributes. A row that is none although its checksum is right is logged, and
    left out."""
    try:
        attributes = decode(rows)
    except (ValueError, RecursionError):
        attributes = []
    if len(attributes) == len(rows):
        return rows, attributes
    found: list[tuple[Row, dict[str, Any]]] = []
    for row in rows:
        try:
            (one,) = decode([row])
        except (ValueError, RecursionError) as e:
            log.error("event %d can't be read: %s", row[0], e)
        else:
            found.append((row, one))
    return [row for row, _ in found], [attributes for _, attributes in found]


def _traces(dicts: Sequence[dict[str, Any]], flags: Sequence[int]) -> dict[int, str]:
    """Removes the trace contexts from the attributes; returns them by row number."""
    if max(flags) < TRACED:
        return {}
    return {n: dicts[n].pop(TRACE, "") for n, flag in enumerate(flags) if flag & TRACED}


def _trace_ids(dicts: Sequence[dict[str, Any]], traces: dict[int, str]) -> pa.Array:
    import pyarrow as pa

    found = [trace_id(d.get("traceparent")) for d in dicts]
    for n, text in traces.items():
        found[n] = trace_id(text) or found[n]
    return pa.array(found, pa.string())


def trace_id(text: Any) -> str | None:
    """The trace id in a `traceparent` (W3C Trace Context section 3.2), or None."""
    if not isinstance(text, str):
        return None
    match = _TRACE_ID.match(text)
    return match[1] if match else None


def _texts(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if v is None else text_of(v) for v in values], pa.string())


def _times(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    utc = pa.timestamp("us", "UTC")
    try:
        # fast if every time is plain (at most six digits, in range); a single unusual one needs the slow path
        return pa.array(values, pa.string()).cast(utc)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([micros(v) for v in values], pa.int64()).cast(utc)


def _lost_times(values: list[Any], moments: pa.Array) -> Iterator[tuple[int, str]]:
    """The rows whose time the column does not have in full, with its text: of nanoseconds, or no RFC 3339 time."""
    if moments.null_count == values.count(None) and not any(v and len(v) > _MICROS for v in values):
        return
    for n, (text, known) in enumerate(zip(values, moments.is_null().to_pylist(), strict=True)):
        if text is not None and (known or _FINER.search(text_of(text))):
            yield n, text_of(text)


def _received(values: Sequence[int]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    ns = pa.array(values, pa.int64())
    return pc.if_else(pc.equal(ns, 0), None, pc.divide(ns, 1000)).cast(pa.timestamp("us", "UTC"))


def _extensions(dicts: Sequence[dict[str, Any]]) -> pa.Array:
    import pyarrow as pa

    offsets, total = [0], 0
    names: list[str] = []
    values: list[Any] = []
    for d in dicts:
        if d:
            names += d
            values += d.values()
            total += len(d)
        offsets.append(total)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()), _texts(values))


def _json_mask(content_types: pa.Array, flags: Sequence[int]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = content_types.dictionary_encode()
    by_code = pa.array([is_json(t) for t in coded.dictionary.to_pylist()], pa.bool_())
    json_type = pc.fill_null(by_code.take(coded.indices), False)
    if not any(flags):
        return json_type
    return pc.or_(json_type, pa.array([bool(f & JSON_DATA) for f in flags], pa.bool_()))


def _json_texts(data: pa.Array, mask: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    chosen = pc.if_else(mask, data, pa.scalar(None, pa.binary()))
    try:
        return chosen.cast(pa.string())  # checks the UTF-8 of all at once
    except pa.ArrowInvalid:
        return pa.array([_utf8(v) for v in chosen.to_pylist()], pa.string())


def _utf8(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
