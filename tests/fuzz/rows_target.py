"""Rows of the log's files: where up to four bytes of a file changed, its events are read as they were, or reported.

An input is an offset in two bytes, then at most four bytes that are written there (CRC-32 finds any burst of that
length), or with a first byte 255 in place of them: how much of the file is left. An input of more bytes is the text of
attributes in a row without checksum, as format 1 wrote it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import msgspec
from gateway_cloudevents import event_json
from gateway_log.checksum import checksum
from gateway_log.reader import to_event
from gateway_log.rows import Row, Rows, SafeConnection, Unreadable
from gateway_log.schema import _TABLES as TABLES

_ROWS = [
    Row(n, 1_700_000_000_000_000_000 + n, n % 4, b"key" if n % 2 else None, _attributes, _data)
    for n, (_attributes, _data) in enumerate(
        [
            (
                b'{"specversion":"1.0","id":"%d","source":"/s","type":"t"%s}'
                % (n, b',":trace":"00-1"' if n % 4 > 1 else b""),
                data,
            )
            for n, data in enumerate([None, b"", b"abc", b"{}", bytes(3000), b"x" * 200, b'{"a":1}', b"\xff"] * 2, 1)
        ],
        1,
    )
]


def _file() -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=SafeConnection)) as made:
        made.execute("PRAGMA page_size = 1024")
        made.executescript(TABLES)
        made.execute("INSERT INTO meta VALUES ('checked', 1)")
        made.execute("PRAGMA user_version = 2")
        for row in _ROWS:
            attributes = row.attributes.decode()
            made.execute("INSERT INTO events VALUES (?,?,?,?,?,?,?)", (*row[:4], attributes, row.data, checksum(*row)))
        return made.serialize()


_WHOLE = _file()
_CUT = 255


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    if len(data) > 6:
        _check_old(data)
        return
    offset, patch = int.from_bytes(data[:2], "big") % len(_WHOLE), data[2:]
    if patch[:1] == bytes([_CUT]) and len(patch) == 1:
        changed = _WHOLE[: max(offset, 512)]
    else:
        changed = (_WHOLE[:offset] + patch + _WHOLE[offset + len(patch) :])[: len(_WHOLE)]
    reported: list[Unreadable] = []
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=SafeConnection)) as connection:
        try:
            connection.deserialize(changed)
            rows, following = Rows(connection, 0, reported.append).read(1, len(_ROWS) + 1)
        except (sqlite3.OperationalError, sqlite3.NotSupportedError):  # no table, not a version that SQLite knows
            return
        except sqlite3.DatabaseError:  # the first page is damaged: the file can't be opened
            return
    assert following <= len(_ROWS) + 1
    known = {row.sequence: row for row in _ROWS}
    unchecked = any("user_version" in r.reason for r in reported)
    for row in rows:
        if _cancels(row, known.get(row.sequence)):
            continue
        assert unchecked or known.get(row.sequence) == row or _is_format_1(changed), "an event is read altered"
        to_event(0, row)
    read = {row.sequence for row in rows}
    lost = {n for r in reported for n in range(r.first, r.last + 1)}
    if read:
        assert not [n for n in range(min(read), max(read)) if n not in read | lost], (
            "an event is missing, and not reported"
        )


def _cancels(row: Row, known: Row | None) -> bool:
    """Whether the time and the first bytes of the attributes changed, which stand side by side. The time is where the
    CRC begins, so a change of one can cancel that of the other: of all such changes one in 256."""
    return known is not None and row.received_ns != known.received_ns and row.attributes[4:] == known.attributes[4:]


def _is_format_1(changed: bytes) -> bool:
    """Whether the file says that its rows have no checksums, or which of them have: both are one number in it."""
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=SafeConnection)) as connection:
        connection.deserialize(changed)
        if connection.execute("PRAGMA user_version").fetchone()[0] < 2:
            return True
        try:
            return connection.execute("SELECT value FROM meta WHERE name = 'checked'").fetchone() != (1,)
        except sqlite3.Error:
            return True


def _check_old(text: bytes) -> None:
    reported: list[Unreadable] = []
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=SafeConnection)) as connection:
        connection.executescript(TABLES)
        connection.execute("PRAGMA user_version = 1")
        connection.execute("INSERT INTO events VALUES (1, 1, 0, NULL, CAST(? AS TEXT), NULL, NULL)", (text,))
        rows, _ = Rows(connection, 0, reported.append).read(1, 2)
    assert len(rows) + len(reported) == 1
    for row in rows:
        event = to_event(0, row)
        assert event.attributes == msgspec.json.decode(text)
        assert event_json.load(event_json.dump(event)).attributes.keys() <= event.attributes.keys()


SEEDS = [
    *(offset.to_bytes(2, "big") + b"\x80" for offset in range(16, len(_WHOLE), 97)),
    *(offset.to_bytes(2, "big") + b"\xff" for offset in range(1024, len(_WHOLE), 2000)),
    b"\0\x10\x08\x00",
    b"\0\x3c\0\0\0\x01",
    b"\x04\x00\x0d\0\0\0",
    _ROWS[0].attributes,
    b'{"a":1,"b":null,"data":"x","key_base64":5}',
    b'["not an object"]',
    b'{"a":"\\ud800"}',
]
WORDS = [
    *(b"\0\0", b"\xff", b"\x0d\0\0\0", b"\x05\0\0\0", b"\x0a", b"\x02\0", b'"id":"1"', b'"', b"{", b"}", b"\\u0000"),
    *(b"null",),
]  # fmt: skip
