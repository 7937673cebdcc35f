"""Finding events by their id, from the newest back."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
from gateway_log import search
from gateway_log.checksum import checksum
from gateway_log.reader import shard_file
from gateway_log.schema import open_shard

from gateway_core.contract.event import position_of


def fill(folder: Path, shard: int, events: list[dict[str, str]]) -> None:
    connection = open_shard(shard_file(folder, shard))
    texts = [msgspec.json.encode(e) for e in events]
    rows = [
        (n, n, 0, None, t.decode(), None, checksum(position_of(shard, n), n, 0, None, t, None))
        for n, t in enumerate(texts, 1)
    ]
    connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    connection.close()


def event(id: str, source: str = "/s", **more: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": id, "source": source, "type": "t", **more}


def places(found: search.Found) -> list[tuple[int, int]]:
    return [(e.position >> 48, e.position & 0xFFFF) for e in found.events]


def test_ids_are_compared_whole_and_as_they_are(tmp_path: Path) -> None:
    odd = 'a"b\\ü\n'
    fill(
        tmp_path, 0, [event("1"), event("11"), event("2", subject="1"), event(odd), {"eventID": "old", "source": "/s"}]
    )
    assert places(search.find(tmp_path, "1", None)) == [(0, 1)]
    assert places(search.find(tmp_path, odd, None)) == [(0, 4)]
    assert places(search.find(tmp_path, "old", "/s")) == [(0, 5)]
    assert places(search.find(tmp_path, "old", "/z")) == []
    assert search.find(tmp_path, "", None).rest is None


def test_the_newest_come_first_and_all_shards_are_looked_at(tmp_path: Path) -> None:
    fill(tmp_path, 0, [event("1"), event("x"), event("1", "/z")])
    fill(tmp_path, 3, [event("x"), event("1")])
    assert places(search.find(tmp_path, "1", None)) == [(0, 3), (3, 2), (0, 1)]
    assert places(search.find(tmp_path, "1", "/z")) == [(0, 3)]


def test_a_step_is_bounded_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WINDOW", 10)
    fill(tmp_path, 0, [event(str(n)) for n in range(1, 26)])
    fill(tmp_path, 1, [event(f"other-{n}") for n in range(5)])
    first = search.find(tmp_path, "3", None, within_s=0)
    assert (first.events, first.searched, first.rest) == ([], 15, {"0": 16})
    second = search.find(tmp_path, "3", None, first.rest, within_s=0)
    assert (second.events, second.searched, second.rest) == ([], 10, {"0": 6})
    third = search.find(tmp_path, "3", None, second.rest, within_s=0)
    assert (places(third), third.searched, third.rest) == ([(0, 3)], 5, None)


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    shard_file(tmp_path, 0).write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.Error):
        search.find(tmp_path, "1", None)
