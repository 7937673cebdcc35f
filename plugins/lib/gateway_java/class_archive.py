"""Archives of the classes that a Java program loads (class data sharing of the JVM), in the cache. With one, a program
starts in about half the time. A JVM that can't use an archive starts without it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .java import Java, cache_dir

_QUIET = ("-Xlog:cds*=off", "-Xlog:class+path=off")
_PLACES = ".places"  # suffix of a file that names the folders that an archive is of, one a line
_UNUSED_S = 3600.0
"""How long an archive is kept whose places are gone: containers that share a cache see different folders."""


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
def creating(archive: Path, places: Sequence[Path]) -> Iterator[Path | None]:
    """An empty folder beside an archive, to create it in; None if another process is creating it. The folder is deleted
    afterwards. `places` hold what the archive is of: archives of places that are gone are deleted. Raises `OSError`."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        _delete_orphans(archive.parent)
        archive.with_suffix(_PLACES).write_text("\n".join(str(place.absolute()) for place in places))
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


def delete(archive: Path) -> None:
    """Deletes an archive and what belongs to it. Raises `OSError`."""
    for file in archive.parent.glob(f"{archive.stem}.*"):
        if not file.is_dir():
            file.unlink(missing_ok=True)


def _delete_orphans(folder: Path) -> None:
    """Deletes archives of a Java or of packages that were removed, with a virtual environment, say."""
    for known in folder.glob(f"*{_PLACES}"):
        with suppress(OSError):
            archive = known.with_suffix(".jsa")
            used = (archive if archive.exists() else known).stat().st_mtime
            places = known.read_text().splitlines()
            if used < time.time() - _UNUSED_S and not all(Path(place).exists() for place in places):
                delete(archive)
