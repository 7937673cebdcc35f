"""Creates the archive of a Kafka broker's classes, if it is missing: `python -m gateway_java.kafka_archive`. It takes
seconds and 50 MB, once for each Java and Kafka. Each broker that starts later uses it."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sys
from pathlib import Path

from gateway_core.contract.errors import StartError

from . import class_archive, jars, java
from .kafka import ARCHIVE, VERSION, KafkaBroker, broker_artifacts

_log = logging.getLogger("tidegate.java")
_STOP_S = 300.0
"""For a stop: the JVM writes the archive when it ends."""


def make() -> bool:
    """Creates the archive if it is missing; returns whether it exists. Does not wait for another process that is
    creating it. Raises `MissingExtra` or `StartError` if there is no Java, or the jars can't be downloaded."""
    found = java.find()
    archive = class_archive.archive_path(ARCHIVE, found, jars.fetch(broker_artifacts(VERSION), found))
    if archive.exists():
        return True
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        folder = archive.with_suffix(".new")
        shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
        try:
            _make(archive, folder)
        except (OSError, StartError) as e:  # no space, or a busy machine: a later call retries
            _log.warning("can't create the archive of Kafka's classes now: %s", e)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return archive.exists()


def _make(archive: Path, folder: Path) -> None:
    folder.mkdir()
    made = folder / "made.jsa"
    broker = KafkaBroker(folder / "broker", java_options=[f"-XX:ArchiveClassesAtExit={made}"])
    broker.start(300.0)
    try:
        broker.create_topic("made")
    finally:
        broker.stop(_STOP_S)
    made.rename(archive)


if __name__ == "__main__":
    os.nice(19)
    sys.exit(0 if make() else 1)
