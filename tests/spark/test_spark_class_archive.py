"""The archive of Spark's classes: it is used where it is there, and nothing depends on it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gateway_java import java
from gateway_spark import class_archive

from tests.servers_shared import need

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(600)]

MAPPED = """
from pathlib import Path
from gateway_spark import session
spark = session()
process = spark.sparkContext._gateway.proc
print(spark.range(3).count(), [line.split()[-1] for line in Path(f"/proc/{process.pid}/maps").open() if ".jsa" in line])
spark.stop()
process.stdin.close()
process.wait()
"""


def run() -> str:
    """What a session says of its rows, and of the archives that its JVM has in memory."""
    command = [sys.executable, "-c", MAPPED]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.full
@pytest.mark.usefixtures("own_spark")
def test_a_session_uses_the_archive() -> None:
    need(Path("/proc/self/maps").exists(), "what a process has in memory is read from /proc")
    found = java.find()
    refused = class_archive.archive_path(found).with_suffix(".refused")
    for _ in range(600):  # a driver of another test may be making it
        if class_archive.make(found) or refused.exists():
            break
        time.sleep(0.5)
    assert not refused.exists(), refused.read_text()
    (place,) = [o for o in class_archive.options(found).split() if o.startswith("-XX:SharedArchiveFile=")]
    shown = run()
    assert shown.startswith("3 ")
    assert place.partition("=")[2] in shown


def test_a_jvm_does_without_an_archive_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = java.find()
    other = class_archive.archive_path(found)
    assert class_archive.options(found) == ""
    other.parent.mkdir(parents=True)
    other.write_bytes(b"no archive")
    chosen = class_archive.options(found).split()
    assert f"-XX:SharedArchiveFile={other}" in chosen
    ran = subprocess.run([found.executable, *chosen, "--version"], capture_output=True, text=True, check=True)
    assert "warning" not in ran.stdout + ran.stderr


def test_files_installed_anew_have_an_archive_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM takes no archive of jars with another time, and continues without it, silently."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    jar = tmp_path / "spark/jars/spark-core.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"classes")
    found = java.find()
    before = class_archive.archive_path(found)
    before.parent.mkdir(parents=True)
    before.write_bytes(b"an archive")
    assert class_archive.options(found)
    os.utime(jar, (jar.stat().st_mtime + 1,) * 2)
    after = class_archive.archive_path(found)
    assert class_archive.options(found) == "", "not one of the files that were there before"
    after.write_bytes(b"an archive")
    assert class_archive.make(found)
    assert list(before.parent.glob("*.jsa")) == [after]


def test_only_a_java_that_takes_no_archive_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = java.find()
    refused = class_archive.archive_path(found).with_suffix(".refused")
    monkeypatch.setattr(class_archive, "_TIME_LIMIT_S", 0.01)
    assert not class_archive.make(found)
    assert not refused.exists(), "a busy machine"
    monkeypatch.setattr(class_archive, "_TIME_LIMIT_S", 300)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))  # the session ends at once
    refused = class_archive.archive_path(found).with_suffix(".refused")
    assert not class_archive.make(found)
    assert "gateway_spark.class_archive_run" in refused.read_text()


def test_archives_that_nobody_uses_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = java.find()
    mine = class_archive.archive_path(found)
    old, recent = mine.with_name("old.jsa"), mine.with_name("recent.jsa")
    mine.parent.mkdir(parents=True)
    now = time.time()
    for file, days in ((mine, 90), (old, 31), (recent, 29)):
        file.write_bytes(b"an archive")
        os.utime(file, (now, now - days * 86400))
    assert class_archive.make(found)
    assert sorted(mine.parent.glob("*.jsa")) == sorted([mine, recent])
    assert class_archive.options(found)
    assert mine.stat().st_mtime > now - 60, "it was used"
