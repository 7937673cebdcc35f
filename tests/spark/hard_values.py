"""JSON that parsers read differently, and what a typed column makes of it. Each case is the text of one field's value,
its type, and what the table has: a value, or one of `UNFIT` (the type does not take it) and `NO_JSON`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

UNFIT, NO_JSON = object(), object()
_AT = datetime(2026, 1, 2, 3, 4, 5)

CASES: list[tuple[str, str, Any]] = [
    # numbers in STRING: their text
    *[("STRING", text, text) for text in ("1.10", "100000000.0", "1e400", "-1E-400", "-0", "-0.0", "1E+2", "0.1e1")],
    ("STRING", "12345678901234567890.123456789", "12345678901234567890.123456789"),
    ("STRING", "9223372036854775808", "9223372036854775808"),
    ("STRING", '"1.10"', "1.10"),
    ("STRING", '"Infinity"', "Infinity"),
    ("STRING", '[1.10, "1.10", {"a": 2.0E1}, true, null]', '[1.10,"1.10",{"a":2.0E1},true,null]'),
    ("STRING", r'{"a\"1.50": "q\\", "b": 2.50}', r'{"a\"1.50":"q\\","b":2.50}'),
    ("STRING", r'"\\\"1.50, 2.50\\"', '\\"1.50, 2.50\\'),
    ("STRING", r'"\u0041\uD83D\uDE00"', "A\U0001f600"),
    ("STRING", r'"\u0000"', "\x00"),
    ("STRING", "true", "true"),
    ("STRING", '""', ""),
    ("ARRAY<STRING>", '[1.10, "2.20", 3]', ["1.10", "2.20", "3"]),
    ("MAP<STRING, STRING>", '{"a": 1.0, "b": "x"}', {"a": "1.0", "b": "x"}),
    ("STRUCT<s STRING, n INT>", '{"s": 2.50, "n": 1}', {"s": "2.50", "n": 1}),
    # what is no JSON at all
    *[("STRING", text, NO_JSON) for text in ("NaN", "-Infinity", "+1", "01", ".5", "1.", "1e", "0x1F", "1_000", "'a'")],
    *[("STRING", text, NO_JSON) for text in ('"\\x41"', '"a\nb"', "[1,]", '{"a" 1}', "tru", "", "[1 2]", '"a')],
    # numbers
    ("BIGINT", "9223372036854775807", 9223372036854775807),
    ("BIGINT", "9223372036854775808", UNFIT),
    ("BIGINT", "1e3", UNFIT),
    ("BIGINT", '"1"', UNFIT),
    ("DOUBLE", "1e400", float("inf")),
    ("DOUBLE", "1E-400", 0.0),
    ("DOUBLE", '"1.5"', UNFIT),
    ("DECIMAL(20,4)", "1234.5", Decimal("1234.5")),
    ("DECIMAL(20,4)", "1.00005", Decimal("1.0001")),
    ("DECIMAL(20,4)", "0.1e1", Decimal(1)),
    ("DECIMAL(20,4)", "1e40", UNFIT),
    ("DECIMAL(20,4)", "1e1000000000", UNFIT),
    ("DECIMAL(20,4)", "1e-1000000000", UNFIT),
    *[("DECIMAL(20,4)", f'"{text}"', UNFIT) for text in ("1.234,5", "1,2,3", "1.5", "-1", "", "NaN", "1e2")],
    ("ARRAY<DECIMAL(5,2)>", "[1.5, 2]", [Decimal("1.50"), Decimal("2.00")]),
    ("ARRAY<DECIMAL(5,2)>", '[1.5, "2"]', UNFIT),
    ("MAP<STRING, DECIMAL(5,2)>", '{"a": "2"}', UNFIT),
    # times
    ("TIMESTAMP", '"2026-01-02T03:04:05Z"', _AT),
    ("TIMESTAMP", '"2026-01-02t03:04:05z"', _AT),
    ("TIMESTAMP", '"2026-01-02 05:04:05+02:00"', _AT),
    ("TIMESTAMP", '"2026-01-02T03:04:05.123456789Z"', _AT.replace(microsecond=123456)),
    ("TIMESTAMP", '"2026-01-02T03:04"', _AT.replace(second=0)),
    ("TIMESTAMP", '"2026-01-02"', datetime(2026, 1, 2)),
    ("TIMESTAMP", "1767323045", _AT),
    *[("TIMESTAMP", text, UNFIT) for text in ("1767323045000", "-62135596801", "1767323045.5", "1e9", "true")],
    *[
        ("TIMESTAMP", f'"{text}"', UNFIT)
        for text in ("10:00", "T10:00", "2026", "yesterday", "2026-02-30", "1767323045")
    ],
    *[("TIMESTAMP", f'"{text}"', UNFIT) for text in ("2026-01-02T24:00:00Z", "2026-01-02T25:00:00Z", "+12345-01-02")],
    ("ARRAY<TIMESTAMP>", "[1767323045000]", UNFIT),
    ("TIMESTAMP_NTZ", '"2026-01-02T03:04:05"', _AT),
    *[("TIMESTAMP_NTZ", text, UNFIT) for text in ('"2026-01-02T03:04:05Z"', '"10:00"', "1767323045")],
    ("DATE", '"2026-01-02"', date(2026, 1, 2)),
    *[
        ("DATE", f'"{text}"', UNFIT)
        for text in ("2026-01-02T23:00:00-05:00", "2026-01-02Z", "2026-02-30", "today", "2026")
    ],
    ("DATE", "20000", UNFIT),
]
"""(type, JSON of the value, what the table has)"""


def numbers(count: int, seed: int) -> Iterator[str]:
    """Numbers as RFC 8259 writes them, of all lengths."""
    draw = random.Random(seed)

    def digits(most: int) -> str:
        return "".join(draw.choice("0123456789") for _ in range(draw.randint(1, most)))

    for _ in range(count):
        whole = digits(25).lstrip("0") or "0"
        fraction = f".{digits(25)}" if draw.random() < 0.6 else ""
        exponent = draw.choice("eE") + draw.choice(["", "+", "-"]) + digits(3) if draw.random() < 0.4 else ""
        yield draw.choice(["", "-"]) + whole + fraction + exponent
