"""A log of the version before is taken over; one of a newer version is refused, untouched, with the way out."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from gateway_log.verify import faults
from gateway_testing import GatewayProcess, Subscriber

pytestmark = pytest.mark.usefixtures("processes")


FORMAT_1 = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
CREATE TABLE events (
  sequence INTEGER PRIMARY KEY, received_ns INTEGER NOT NULL, flags INTEGER NOT NULL, key BLOB,
  attributes TEXT NOT NULL, data BLOB
);
CREATE TABLE feeds (name TEXT PRIMARY KEY, place INTEGER, pending TEXT) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
INSERT INTO meta VALUES ('routed', 6);
INSERT INTO feeds VALUES ('taker', 4, '[2]');
PRAGMA user_version = 1;
"""
CONFIG = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
triggers: {taker: {subscriber: URL}}
"""


def old_log(data_dir: Path, version: int = 1) -> Path:
    """As version 0.1 left it: five events, of which the trigger has dealt with 1 and 3."""
    folder = data_dir / "log" / "default"
    folder.mkdir(parents=True)
    path = folder / "shard-000.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(FORMAT_1)
        for n in range(1, 6):
            text = f'{{"specversion":"1.0","id":"{n}","source":"/s","type":"t"}}'
            connection.execute("INSERT INTO events VALUES (?, 1, 0, NULL, ?, ?)", (n, text, b"%d" % n))
        connection.execute(f"PRAGMA user_version = {version}")
    return path


@pytest.mark.spec("SAFE-54")
def test_a_log_of_the_version_before_goes_on(tmp_path: Path) -> None:
    old_log(tmp_path / "data")
    with Subscriber() as s, GatewayProcess(CONFIG.replace("URL", s.url), tmp_path) as gateway:
        assert {r.headers["ce-id"] for r in s.wait_for(3)} == {"2", "4", "5"}
        gateway.wait_until(gateway.drained, 60, "the deliveries")
        assert gateway.stop() == 0
    assert list(faults(tmp_path / "data" / "log" / "default")) == []


@pytest.mark.spec("SAFE-54")
def test_a_log_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = old_log(tmp_path / "data", 99)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with (
        Subscriber() as s,
        pytest.raises(AssertionError, match=r"(?s)ended with 3.*format 99, which is newer"),
        GatewayProcess(CONFIG.replace("URL", s.url), tmp_path),
    ):
        pass
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
