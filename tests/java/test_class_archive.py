"""Archives of classes: brokers use the one of Kafka, and nothing depends on it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_java import class_archive, jars, java, kafka_archive
from gateway_java.kafka import ARCHIVE, KafkaBroker, broker_artifacts


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[bytes], Path]:
    """The path of a program's archive, in a cache of its own, if its jar has these bytes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def path(jar: bytes) -> Path:
        (tmp_path / "a.jar").write_bytes(jar)
        return class_archive.archive_path("program", java.Java(tmp_path, 17, "test"), [tmp_path / "a.jar"])

    return path


def test_an_archive_is_for_certain_jars(archive: Callable[[bytes], Path]) -> None:
    first = archive(b"one")
    assert first.name.startswith("program-")
    assert first != archive(b"another")


def test_only_an_archive_that_exists_is_used(archive: Callable[[bytes], Path]) -> None:
    made = archive(b"one")
    assert class_archive.options(made) == []
    made.parent.mkdir(parents=True)
    made.touch()
    assert f"-XX:SharedArchiveFile={made}" in class_archive.options(made)


def test_a_new_archive_takes_the_place_of_those_whose_java_or_packages_are_gone(tmp_path: Path) -> None:
    folder, kept, gone = tmp_path / "classes", tmp_path / "venv", tmp_path / "removed"
    kept.mkdir()
    gone.mkdir()
    hours_ago = time.time() - 2 * 3600
    for name, places in {"kept": [kept], "gone": [kept, gone], "used": [gone]}.items():
        with class_archive.creating(folder / f"{name}.jsa", places) as made:
            assert made is not None
            (folder / f"{name}.jsa").write_bytes(b"an archive")
        if name != "used":
            os.utime(folder / f"{name}.jsa", (hours_ago, hours_ago))
    (folder / "unknown.jsa").write_bytes(b"an archive of an earlier version")
    gone.rmdir()
    with class_archive.creating(folder / "new.jsa", [kept]):
        (folder / "new.jsa").write_bytes(b"an archive")
    assert {file.name for file in folder.glob("*.jsa")} == {"kept.jsa", "used.jsa", "unknown.jsa", "new.jsa"}
    assert not list(folder.glob("gone.*"))


@pytest.mark.usefixtures("processes")
def test_a_jvm_starts_without_an_archive_that_is_none(archive: Callable[[bytes], Path]) -> None:
    made = archive(b"one")
    made.parent.mkdir(parents=True)
    made.write_bytes(b"no archive")
    command = [java.find().executable, *class_archive.options(made), "-version"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == ""


@pytest.mark.area(name="dev")
@pytest.mark.timeout(600)
def test_a_broker_uses_its_archive(own_kafka: Callable[..., KafkaBroker]) -> None:
    end = time.monotonic() + 300
    while not kafka_archive.make():  # another process may be creating it
        assert time.monotonic() < end
        time.sleep(0.5)
    found = java.find()
    made = class_archive.archive_path(ARCHIVE, found, jars.fetch(broker_artifacts(), found))
    assert str(made) in Path(f"/proc/{own_kafka().pid}/maps").read_text()
