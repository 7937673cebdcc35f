"""Converts Arrow values to JSON like Spark's `to_json`: exact decimals, RFC 3339 times, no null members."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from json import dumps
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Writer = Callable[[Any], str]


@lru_cache(256)
def writer(kind: pa.DataType) -> Writer:
    """Returns the function that converts a non-null Python value of an array of this type to JSON."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return _structure([kind.field(n) for n in range(kind.num_fields)])
    if pa.types.is_map(kind):  # comes as pairs
        return _mapping(writer(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = writer(kind.value_type)
        return lambda values: "[" + ",".join(["null" if v is None else item(v) for v in values]) + "]"
    return _atom


def _structure(fields: list[pa.Field]) -> Writer:
    members = [(f.name, f"{_text(f.name)}:", writer(f.type)) for f in fields]

    def write(value: dict[str, Any]) -> str:
        return "{" + ",".join([key + of(v) for name, key, of in members if (v := value[name]) is not None]) + "}"

    return write


def _mapping(item: Writer) -> Writer:
    def write(pairs: list[tuple[Any, Any]]) -> str:
        return "{" + ",".join([f"{_text(_key(k))}:{'null' if v is None else item(v)}" for k, v in pairs]) + "}"

    return write


def _atom(value: Any) -> str:
    match value:
        case str():
            return _text(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if isfinite(value) else f'"{_ODD[str(value)]}"'
        case Decimal():
            return format(value, "f")
        case bytes():
            return f'"{b64encode(value).decode()}"'
    return _text(_key(value))


_ODD = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # Spark reads these back


def _key(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)


def _text(value: str) -> str:
    return dumps(value, ensure_ascii=False)
