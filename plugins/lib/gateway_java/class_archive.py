"""Archives of the classes that a Java program loads (class data sharing of the JVM), in the cache. With one, a program
starts in about half the time. A JVM that can't use an archive starts without it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .java import Java, cache_dir

_QUIET = ("-Xlog:cds*=off", "-Xlog:class+path=off")


def archive_path(name: str, found: Java, jars: Sequence[Path]) -> Path:
    """The path of a program's archive for this Java and these jars."""
    # The JVM checks all this as well, but ignores an archive of other files without a message.
    release = found.home / "release"
    facts = [str(found.home.resolve()), str(found.version), release.read_text() if release.exists() else ""]
    for jar in jars:
        about = jar.stat()
        facts.append(f"{jar} {about.st_size} {about.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    return cache_dir() / "classes" / f"{name}-{digest}.jsa"


@contextmanager
def creating(archive: Path) -> Iterator[Path | None]:
    """An empty folder beside an archive, to create it in; None if another process is creating it. The folder is deleted
    afterwards. Raises `OSError`."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        folder = archive.with_suffix(".new")
        shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
        try:
            folder.mkdir()
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def options(archive: Path) -> list[str]:
    """The JVM's options to use an archive, none if it is missing."""
    if not archive.exists():
        return []
    with suppress(OSError):
        os.utime(archive)  # what is not used for long is deleted
    return [f"-XX:SharedArchiveFile={archive}", *_QUIET]
