"""How cursors are written: with few statements, since each one lets the event loop go first."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from gateway_log.cursor import CursorChanges, CursorState, load_cursors
from gateway_log.reader import open_read_only
from gateway_log.shard import COLUMNS, Shard

ROW = [1, 1, 0, "", "{}", None, 0]
assert len(ROW) == COLUMNS


def test_many_cursors_are_one_statement(tmp_path: Path) -> None:
    shard = Shard(tmp_path, 0, "full")
    shard.write(ROW, None)
    statements: list[str] = []
    shard._connection.set_trace_callback(statements.append)
    cursors = [(f"t{n}", CursorState(None, (n + 1,))) for n in range(100)]
    shard.write([2, *ROW[1:]], CursorChanges(0, 3, cursors))
    assert [s.split()[0] for s in statements] == ["BEGIN", "INSERT", "INSERT", "INSERT", "COMMIT"]
    assert load_cursors(shard._connection) == (3, dict(cursors))
    shard.close()


@pytest.mark.parametrize("name", ["it's", "'); DROP TABLE feeds; --", "Grüße 🎉", "\x00", "", "?", ":a"])
def test_any_name_is_written_as_it_is(tmp_path: Path, name: str) -> None:
    shard = Shard(tmp_path, 0, "full")
    cursors = {name: CursorState(7, (3, 5)), "other": CursorState(None)}
    shard.write(ROW, CursorChanges(0, 2, list(cursors.items())))
    with closing(open_read_only(shard.path)) as connection:
        assert load_cursors(connection) == (2, cursors)
        assert {kind for (kind,) in connection.execute("SELECT typeof(name) FROM feeds")} == {"text"}
    shard.close()


@pytest.mark.parametrize("changes", [None, CursorChanges(0, 2, [])])
def test_what_a_failed_rollback_left_is_never_committed(tmp_path: Path, changes: CursorChanges | None) -> None:
    shard = Shard(tmp_path, 0, "full")
    shard.write(ROW, None)
    shard._connection.execute("BEGIN")
    shard._connection.execute("INSERT INTO events VALUES (9, 1, 0, NULL, '{}', NULL, 0)")
    shard.write([2, *ROW[1:]], changes)
    with closing(open_read_only(shard.path)) as connection:
        assert [s for (s,) in connection.execute("SELECT sequence FROM events ORDER BY 1")] == [1, 2]
    shard.close()
