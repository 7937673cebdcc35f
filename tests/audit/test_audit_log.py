"""The audit log: its lines, its bounds, and what it does when it can't be written."""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_audit.cli.show import Following, read
from gateway_audit_log.denials import BURST, Denials
from gateway_audit_log.files import LineFile, audit_file, generations
from gateway_audit_log.log import AuditLog, audit_log


def lines(data_dir: Path, worker: int = 0) -> list[dict[str, Any]]:
    return [json.loads(text) for text in audit_file(data_dir, worker).read_text().splitlines()]


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.spec("AL-01", "AL-03")
def test_a_line_says_who_did_what_from_where(tmp_path: Path) -> None:
    log = audit_log(tmp_path / "data")
    log.record("key billing", "trigger.apply", "10.0.0.7", "done", name="orders", time="forged")
    audit_log(tmp_path / "data", 2).record("", "ingress", "::1", "denied", status=401)
    (line,) = lines(tmp_path / "data")
    assert line.pop("time").endswith("Z")
    assert line == {
        "who": "key billing",
        "what": "trigger.apply",
        "where": "10.0.0.7",
        "result": "done",
        "name": "orders",
    }
    file = audit_file(tmp_path / "data", 2)
    assert file.name == "audit-2.jsonl"
    assert [p.stat().st_mode & 0o777 for p in (file, file.parent)] == [0o600, 0o700]
    assert audit_log(tmp_path / "data") is log


@pytest.mark.slow
@pytest.mark.spec("AL-02")
def test_foreign_text_is_escaped_and_cut(tmp_path: Path) -> None:
    log = audit_log(tmp_path)
    log.record(
        'a"\n{"who": "root"}\x1b[2J\u202e', "ingress", "x" * 1000, "failed", path=["y" * 5000] * 5000, at={1: object()}
    )
    log.record("b", "ingress", "", "failed", **{f"n{i}": ["z" * 1000] * 20 for i in range(100)})
    first, second = lines(tmp_path)
    assert "\x1b" not in first["who"]
    assert "\u202e" not in first["who"]
    assert audit_file(tmp_path, 0).stat().st_size < 20_000
    assert (len(first["where"]), len(first["path"])) == (300, 21)
    assert second["cut"] is True


@pytest.mark.slow
@pytest.mark.spec("AL-02")
def test_denied_attempts_beyond_a_rate_are_counted(tmp_path: Path) -> None:
    now = Time()
    log = AuditLog(LineFile(audit_file(tmp_path, 0)), Denials(), now)
    for i in range(100_000):
        log.record(f"stranger {i}", "ingress", f"10.0.{i % 3}.{i % 7}" if i % 100 else f"host {i}", "denied")
    assert len(lines(tmp_path)) == BURST
    log.record("anna", "reload", "socket", "done")
    assert lines(tmp_path)[-1]["who"] == "anna"
    now.now += 61
    log.record("anna", "reload", "socket", "done")
    summary = lines(tmp_path)[-2]
    assert (summary["what"], summary["result"], summary["count"]) == ("ingress", "denied", 100_000 - BURST)
    assert len(summary["addresses"]) == 21
    assert sum(summary["addresses"].values()) == summary["count"]
    log.record("stranger", "ingress", "10.0.0.1", "denied")
    assert lines(tmp_path)[-1]["who"] == "stranger"
    for _ in range(10):
        log.record("stranger", "admin", "10.0.0.1", "denied")
    log.close()
    assert lines(tmp_path)[-1]["count"] == 5


@pytest.mark.spec("AL-02")
def test_a_flood_of_strangers_hides_no_attempt_of_who_is_known(tmp_path: Path) -> None:
    log = AuditLog(LineFile(audit_file(tmp_path, 0)), Denials(), Time())
    for _ in range(1000):
        log.record("", "ingress", "10.0.0.1", "denied")
    for i in range(1000):
        log.record(f"key {i}", "ingress", "10.0.0.2", "denied")
    assert [line["who"] for line in lines(tmp_path)] == [""] * BURST + [f"key {i}" for i in range(BURST)]
    log.close()
    assert lines(tmp_path)[-1]["count"] == 2000 - 2 * BURST


@pytest.mark.spec("AL-03")
def test_files_are_rotated_and_bounded(tmp_path: Path) -> None:
    log = AuditLog(LineFile(audit_file(tmp_path, 0), most_bytes=1000, kept=3))
    for i in range(100):
        log.record("anna", "reload", "socket", "done", number=i)
    files = sorted(p.name for p in audit_file(tmp_path, 0).parent.iterdir())
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"]
    numbers = [line["number"] for line in read(tmp_path)]
    assert numbers == list(range(numbers[0], 100))
    assert all(p.stat().st_size < 1200 for p in generations(audit_file(tmp_path, 0)))


@pytest.mark.spec("AL-03")
def test_several_writers_lose_and_tear_nothing(tmp_path: Path) -> None:
    def write(name: str) -> None:
        log = AuditLog(LineFile(audit_file(tmp_path, 0), most_bytes=30_000, kept=9))
        for i in range(200):
            log.record(name, "reload", "socket", "done", number=i)

    writers = [threading.Thread(target=write, args=[name]) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = [(line["who"], line["number"]) for line in read(tmp_path)]
    assert sorted(found) == sorted((name, i) for name in "abc" for i in range(200))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.spec("AL-03", "AL-04")
def test_without_room_it_says_so_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = audit_log(tmp_path)
    log.record("anna", "reload", "socket", "done")
    with files_of_at_most(audit_file(tmp_path, 0).stat().st_size + 50):
        for _ in range(3):
            log.record("bert", "reload", "socket", "done")
    assert [r.levelname for r in caplog.records] == ["ERROR"]
    assert "can't write the audit log" in caplog.text
    log.record("carl", "reload", "socket", "done")
    assert [(line["who"], line.get("lost_before")) for line in read(tmp_path)] == [("anna", None), ("carl", 3)]
    assert "3 lines were lost" in caplog.text


@pytest.mark.spec("AL-04")
def test_a_folder_that_can_not_be_made_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit").write_text("a file")
    audit_log(tmp_path).record("anna", "reload", "socket", "done")
    assert "can't write the audit log" in caplog.text


@pytest.mark.spec("AL-05")
def test_following_goes_through_rotations_and_new_workers(tmp_path: Path) -> None:
    log = AuditLog(LineFile(audit_file(tmp_path, 0), most_bytes=500, kept=9))
    log.record("old", "reload", "socket", "done")
    following = Following(tmp_path)
    found = []
    for i in range(20):
        log.record("anna", "reload", "socket", "done", number=i)
        found += [line["number"] for line in following.more()]
    audit_log(tmp_path, 1).record("bert", "ingress", "::1", "denied", number=20)
    found += [line["number"] for line in following.more()]
    following.close()
    assert found == list(range(21))
