"""Checks and repairs the files of waiting events (`delay_file.py`).

Each of them has its tables from the moment of its creation, so its first page can be rebuilt if it is damaged. An
event that can't be read any more is named by the indexes, which lie on other pages.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gateway_core.contract.event import position_of
from gateway_core.contract.private_files import sync_directory

from .delay_file import DELAY_FILE, FORMAT, TABLES, DelayFile, Waiting, format_of, identify, total_of, unfinished_repair
from .quarantine import set_aside
from .reader import open_read_only
from .repaired_file import put_in_place, remove
from .rows import Row, Unreadable, is_damage
from .too_new import too_new
from .wal_file import has_wal

_CHUNK = 1000
_SELECT = (
    "SELECT rowid, CAST(name AS BLOB), sequence, received_ns, flags, CAST(key AS BLOB), CAST(attributes AS BLOB),"
    " CAST(data AS BLOB), due_ns, checksum, ident FROM events NOT INDEXED"
)
_INDEXES = {"sqlite_autoindex_events_1": "name {0}, sequence {0}", "due": "name {0}, due_ns {0}, sequence {0}"}
_SCHEMA = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master ORDER BY name"
_CONSTANT = (slice(0, 18), slice(20, 24), slice(52, 60), slice(64, 68))
"""The parts of a file's header that never change."""


class Lost(NamedTuple):
    """An event that waits for a subscription and can't be delivered, and why. `page`: the file itself is damaged
    there. `raw` has its columns from `sequence` to `checksum`, if it can be read at all."""

    name: str
    sequence: int
    reason: str
    page: bool = False
    raw: tuple[object, ...] | None = None

    def __str__(self) -> str:
        return f"event {self.sequence} that waits for {self.name!r}: {self.reason}"


class _Kept(NamedTuple):
    name: str
    waiting: Waiting
    ident: object


def shard_of(path: Path) -> int:
    """The shard whose events wait in a file."""
    match = DELAY_FILE.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def count(path: Path) -> int:
    """How many events wait in a file. Raises `sqlite3.Error`."""
    with closing(open_read_only(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM events").fetchone()[0]) if _made(connection) else 0


def faults(path: Path) -> Iterator[str]:
    """One line for each fault of a file, and one for each event that is damaged or lost."""
    if unfinished_repair(path).exists():
        yield "its repair was interrupted"
        return
    try:
        if (fault := _first_page(path)) is not None:
            yield fault
            return
        with closing(open_read_only(path)) as connection:
            connection.execute("BEGIN")  # one snapshot for all that follows
            if not _made(connection):
                return
            wrong = _integrity(connection)
            yield from wrong
            lost: list[Lost] = []
            for kept in _events(connection, shard_of(path), lost, intact=not wrong):
                row = kept.waiting.row
                if kept.ident != identify(row.attributes):
                    yield f"event {row.sequence} that waits for {kept.name!r} can't be found by its id"
            yield from map(str, lost)
    except (sqlite3.Error, OSError, ValueError) as e:
        yield str(e)


def repair(folder: Path, path: Path, stamp: str) -> Iterator[str]:
    """Repairs a file that nobody uses: builds a new one of all events that can be read, sets the others aside in the
    quarantine, and keeps the old file. Yields a line for each action. Raises `OSError` and `sqlite3.Error`."""
    if unfinished_repair(path).exists():
        aside = _replace(path, stamp)
        yield f"{path.name}: finished a repair that was interrupted; the old file is {aside.name}"
        return
    if not any(True for _ in faults(path)):
        return
    if (why := _newer(path)) is not None:
        yield f"{path.name}: {why}: it is left as it is; if no newer version wrote it, restore it from a backup"
        return
    shard, new = shard_of(path), path.with_name(f"{path.name}.repairing")
    source = path.with_name(f"{path.name}.reading")
    lost: list[Lost] = []
    unsure = False
    kept = 0
    remove(new)
    try:
        _copy(path, source)
        target = DelayFile(new, position_of(shard, 0))
        try:
            with closing(open_read_only(source)) as connection:
                try:
                    unsure = bool(_integrity(connection))
                    for name, chunk in _chunks(_events(connection, shard, lost, intact=not unsure)):
                        kept += target.add(name, chunk)
                except sqlite3.DatabaseError as e:
                    if not is_damage(e):
                        raise
                    unsure = True
        finally:
            target.close()
    finally:
        remove(source)
    for one in lost:
        set_aside(folder, shard, one.name, Unreadable(one.sequence, one.sequence, one.reason, one.page, one.raw))
    os.replace(new, unfinished_repair(path))
    sync_directory(folder)
    aside = _replace(path, stamp)
    yield f"{path.name}: kept {kept} events; the damaged file is {aside.name}"
    for one in lost:
        yield f"{path.name}: {one}; `tidegate log quarantine list` shows it"
    if unsure:
        yield f"{path.name}: pages were damaged: events that neither they nor an index name are lost, too, if any"


# -- what is in a file -----------------------------------------------------------------------------------------------


@cache
def _template() -> tuple[bytes, list[tuple[Any, ...]]]:
    """The first page of a new file, and its schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.executescript(TABLES)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        content = connection.serialize()
        return content[: int.from_bytes(content[16:18])], connection.execute(_SCHEMA).fetchall()


def _first_page(path: Path) -> str | None:
    """What is wrong with the first page of a file."""
    page, schema = _template()
    with path.open("rb") as f:
        header = f.read(100)
    if not header:
        return None  # a crash left it before it had tables
    if not has_wal(path) and any(header[part] != page[part] for part in _CONSTANT):
        if header[68:72] == page[68:72] and len(header) == 100:
            return "its first page is damaged"
        return "is no file of waiting events"
    with closing(open_read_only(path)) as connection:
        version = format_of(connection)
        if (why := too_new(version, FORMAT)) is not None:
            return why
        found = connection.execute(_SCHEMA).fetchall()
    if found != schema and not (version == 0 and all(one in schema for one in found)):
        return "its tables are damaged"
    return None


def _newer(path: Path) -> str | None:
    """Why a file is left to a version after this one, None if it is not."""
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(open_read_only(path)) as connection:
        return too_new(format_of(connection), FORMAT)
    return None


def _made(connection: sqlite3.Connection) -> bool:
    """Whether a file has its tables."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone() is not None


def _integrity(connection: sqlite3.Connection) -> list[str]:
    try:
        return [str(line) for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
    except sqlite3.Error as e:
        if not _lasting(e):
            raise
        return [str(e)]


def _lasting(error: sqlite3.Error) -> bool:
    return is_damage(error) or "decode" in str(error).lower()


def _events(connection: sqlite3.Connection, shard: int, lost: list[Lost], *, intact: bool) -> Iterator[_Kept]:
    """The events that can be delivered, and the others in `lost`. `intact`: the file itself is not damaged, so there
    are no others than those in its table."""
    base = position_of(shard, 0)
    if intact:
        for row in connection.execute(f"{_SELECT} ORDER BY rowid"):
            if isinstance(found := _checked(row, base), Lost):
                lost.append(found)
            else:
                yield found
        return
    indexed = _indexed(connection)
    seen: set[int] = set()
    read: set[tuple[object, ...]] = set()  # damage may give two rows one number
    good: set[tuple[str, int]] = set()
    for row in _table(connection):
        if row[:3] not in read:
            read.add(row[:3])
            seen.add(row[0])
            if isinstance(found := _checked(row, base), Lost):
                name, sequence = indexed.get(row[0], (found.name, found.sequence))
                lost.append(found._replace(name=name, sequence=sequence))
            else:
                good.add((found.name, found.waiting.row.sequence))
                yield found
    for number, (name, sequence) in indexed.items():
        if number in seen or (name, sequence) in good:
            continue
        gone: Lost | None = Lost(name, sequence, "there is no such row", page=True)
        try:
            row = connection.execute(f"{_SELECT} WHERE rowid = ?", (number,)).fetchone()
        except sqlite3.Error as e:
            if not _lasting(e):
                raise
            gone = Lost(name, sequence, str(e), page=True)
        else:
            if row is not None:
                if isinstance(found := _checked(row, base), Lost):
                    gone = found._replace(name=name, sequence=sequence)
                else:
                    gone = None
                    good.add((found.name, found.waiting.row.sequence))
                    yield found
        if gone is not None:
            lost.append(gone)
    # a damaged page may show an event that is kept a second time
    lost[:] = {(one.name, one.sequence): one for one in lost if (one.name, one.sequence) not in good}.values()


def _table(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """The rows before the first damaged page and after the last."""
    for order in ("", "DESC"):
        try:
            yield from connection.execute(f"{_SELECT} ORDER BY rowid {order}")
        except sqlite3.Error as e:
            if not _lasting(e):
                raise
        else:
            return


def _indexed(connection: sqlite3.Connection) -> dict[int, tuple[str, int]]:
    """The subscription and sequence of each row by its number, as far as the indexes can be read."""
    found: dict[int, tuple[str, int]] = {}
    for index, columns in _INDEXES.items():
        for order in ("", "DESC"):
            query = f"SELECT rowid, CAST(name AS BLOB), sequence FROM events INDEXED BY {index} ORDER BY "
            try:
                for number, name, sequence in connection.execute(query + columns.format(order)):
                    if isinstance(sequence, int):
                        found.setdefault(number, (_text(name), sequence))
            except sqlite3.Error as e:
                if not _lasting(e):
                    raise
            else:
                break
    return found


def _text(name: object) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def _checked(columns: tuple[Any, ...], base: int) -> _Kept | Lost:
    _, name, *event, due_ns, total, ident = columns
    row = Row(*event)
    try:
        if total_of(name.decode(), base, row, due_ns) == total:
            return _Kept(name.decode(), Waiting(row, due_ns), ident)
        reason = "its checksum is another one"
    except (TypeError, ValueError, AttributeError, OverflowError) as e:
        reason = str(e)
    sequence = row.sequence if isinstance(row.sequence, int) else 0
    return Lost(_text(name), sequence, reason, raw=(*row, due_ns, total))


def _chunks(kept: Iterator[_Kept]) -> Iterator[tuple[str, list[Waiting]]]:
    """Events of one subscription after another, as they come."""
    name, chunk = "", list[Waiting]()
    for one in kept:
        if chunk and (one.name != name or len(chunk) >= _CHUNK):
            yield name, chunk
            chunk = []
        name = one.name
        chunk.append(one.waiting)
    if chunk:
        yield name, chunk


# -- files -----------------------------------------------------------------------------------------------------------


def _copy(path: Path, target: Path) -> None:
    """Copies a file with a new first page."""
    page, _ = _template()
    remove(target)
    shutil.copyfile(path, target)
    os.chmod(target, 0o600)
    wal = Path(f"{path}-wal")
    logged = wal.exists() and wal.stat().st_size > 0
    if logged:
        shutil.copyfile(wal, f"{target}-wal")
    pages = max(1, target.stat().st_size // len(page))
    with target.open("r+b") as f:
        f.seek(0)
        f.write(page[:18] + (b"\2\2" if logged else b"\1\1") + page[20:28] + pages.to_bytes(4) + page[32:])


def _replace(path: Path, stamp: str) -> Path:
    """Replaces the old file by the new one."""
    aside = put_in_place(unfinished_repair(path), path, stamp)
    sync_directory(path.parent)
    return aside
