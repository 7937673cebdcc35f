"""Converts a DataFrame's rows to events, and events to HTTP. Needs only PyArrow besides Python."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ..errors import SparkFault
from . import jsontext

if TYPE_CHECKING:
    import pyarrow as pa

REQUIRED = ("id", "source", "type")
NAMED = ("specversion", *REQUIRED, "subject", "time", "datacontenttype", "dataschema")
EVENT = frozenset((*NAMED, "extensions", "data", "data_text"))
"""The columns that make up an event."""
TABLE = frozenset(
    ("data_raw", "key", "shard", "position", "received", "trace_id", "date", "hour", "fault", "reason", "ingested")
)
"""Other columns of tables: the position of an event, and derived values."""

BATCH = {"content-type": "application/cloudevents-batch+json"}
STRUCTURED = {"content-type": "application/cloudevents+json"}
_FORMAT = "application/cloudevents"
_PLAIN = bytes(c for c in range(0x21, 0x7F) if c not in b'"%').decode()


class Outgoing(NamedTuple):
    """An event. `json`: `data` is the text of a JSON value and is sent as such."""

    attributes: dict[str, str]
    data: bytes | None
    json: bool

    def __str__(self) -> str:
        return f"event {self.attributes['id']!r} of {self.attributes['source']!r}"

    @property
    def batched(self) -> bool:
        """Whether it can be in a batch: JSON of versions before 1.0 has other rules for data."""
        return self.attributes["specversion"] == "1.0"

    def member(self) -> bytes:
        """The event in JSON (CloudEvents 1.0.2 json-format.md section 3)."""
        text = json.dumps(self.attributes, ensure_ascii=False, separators=(",", ":")).encode()
        if self.data is None:
            return text
        if self.json:
            return b'%b,"data":%b}' % (text[:-1], self.data)
        return b'%b,"data_base64":"%b"}' % (text[:-1], b64encode(self.data))

    def alone(self) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of a request with only this event: structured mode, or binary mode for data that would need
        Base64, which keeps it short."""
        content_type = self.attributes.get("datacontenttype", "")
        binary = bool(self.data) and not self.json and not content_type.lower().startswith(_FORMAT)
        return self._binary() if binary or not self.batched else (STRUCTURED, self.member())

    def _binary(self) -> tuple[Mapping[str, str], bytes]:
        """HTTP binding 1.0.2, section 3.1."""
        headers = {f"ce-{n}": quote(v, safe=_PLAIN) for n, v in self.attributes.items() if n != "datacontenttype"}
        if "datacontenttype" in self.attributes:
            headers["content-type"] = self.attributes["datacontenttype"]
        return headers, self.data or b""


def check(names: Sequence[str]) -> None:
    """Raises `ValueError` if these are not the columns of events."""
    if missing := [n for n in REQUIRED if n not in names]:
        raise ValueError(f"events need the columns {', '.join(REQUIRED)}: {', '.join(missing)} is missing")
    if unknown := [n for n in names if n not in EVENT and n not in TABLE]:
        raise ValueError(
            f"an event has no column {', '.join(unknown)}: move it to `extensions` or `data`, or drop it "
            "(tidegate.spark.to_events makes events from any columns)"
        )


def events(batch: pa.RecordBatch, where: str = "") -> Iterator[Outgoing]:
    """The events of a batch's rows. Raises `SparkFault` at a row that is not an event; `where` names the batch in the
    message."""
    names = [n for n in NAMED if n in batch.schema.names]
    columns = [_texts(batch.column(n)) for n in names]
    extensions = _optional(batch, "extensions")
    texts = _optional(batch, "data_text")
    payloads, known = _payloads(batch)
    rows = zip(zip(*columns, strict=True), extensions, payloads, texts, strict=False)
    for n, (values, more, data, text) in enumerate(rows):
        attributes = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        attributes.setdefault("specversion", "1.0")
        for name in REQUIRED:
            if name not in attributes:
                raise SparkFault(f"row {n} {where}has no {name}: {attributes}")
        if more:
            _extend(attributes, more)
        declared = text is not None if "datacontenttype" not in attributes else _json(attributes["datacontenttype"])
        yield Outgoing(attributes, data, data is not None and (known or (declared and is_value(data))))


def _texts(column: pa.Array) -> list[str | None]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        import pyarrow.compute as pc

        # "2026-01-02 03:04:05.000000Z": a time without zone counts as UTC
        shown = column.cast(pa.timestamp("us", "UTC")).cast(pa.string())
        column = pc.replace_substring(pc.replace_substring_regex(shown, r"\.0+Z$", "Z"), " ", "T")
    found: list[str | None] = column.cast(pa.string()).to_pylist()
    return found


def _optional(batch: pa.RecordBatch, name: str) -> Any:
    return batch.column(name).to_pylist() if name in batch.schema.names else repeat(None, batch.num_rows)


def _payloads(batch: pa.RecordBatch) -> tuple[Any, bool]:
    """The data of each row as bytes, and whether all of it is known to be JSON."""
    import pyarrow as pa

    name = next((n for n in ("data", "data_text") if n in batch.schema.names), "")
    if not name:
        return repeat(None, batch.num_rows), False
    column = batch.column(name)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column.to_pylist(), False
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_binary()).to_pylist(), False
    write = jsontext.writer(column.type)
    return [None if v is None else write(v).encode() for v in column.to_pylist()], True


def _extend(attributes: dict[str, str], more: Sequence[tuple[str, Any]]) -> None:
    for name, value in more:
        if name in NAMED:
            raise SparkFault(f"event {attributes['id']!r}: {name!r} is not an extension: it has its own column")
        if value is not None:
            attributes[name] = value if isinstance(value, str) else str(value).lower()


@lru_cache(4096)
def _json(content_type: str) -> bool:
    """Whether a content type is JSON (json-format.md section 3.1)."""
    subtype = content_type.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def is_value(data: bytes) -> bool:
    """Whether these bytes are one JSON value that can be embedded in other JSON unchanged. Escaped surrogates go to
    Base64: a lone one is not valid text."""
    if not data or data[:1].isspace() or data[-1:].isspace() or b"\\ud" in data or b"\\uD" in data:
        return False
    try:
        json.loads(data.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
