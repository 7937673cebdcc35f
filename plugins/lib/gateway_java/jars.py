"""Downloads jars (a Spark connector, a Kafka broker) once into the cache, with the Ivy that PySpark ships. Needs a
Java, but no Maven."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from gateway_core.contract.errors import MissingExtra, StartError

from .java import Java, cache_dir
from .trust import trust_options

TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Artifact:
    """A Maven artifact, `organisation:name:revision`. `transitive` includes its dependencies."""

    organisation: str
    name: str
    revision: str
    transitive: bool = False

    @classmethod
    def parse(cls, text: str, transitive: bool = False) -> Artifact:
        """Parses `organisation:name:revision`; raises `ValueError` for anything else."""
        parts = text.split(":")
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"{text!r} is not an artifact: write organisation:name:revision")
        return cls(parts[0], parts[1], parts[2], transitive)

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


def fetch(artifacts: Sequence[Artifact], java: Java, cache: Path | None = None) -> list[Path]:
    """The jars of these artifacts, downloaded if they are not in the cache yet (which needs the network and may take
    minutes). Raises `StartError` naming the missing ones."""
    ready = _cache_folder(artifacts, cache)
    folder = ready.parent
    with _one_at_a_time(folder):
        if not (ready / "complete").exists():
            _retrieve(artifacts, java, folder, ready)
            (ready / "complete").touch()
    return sorted(ready.glob("*.jar"))


def cached(artifacts: Sequence[Artifact], cache: Path | None = None) -> bool:
    """Whether `fetch` has these already and needs no network."""
    return (_cache_folder(artifacts, cache) / "complete").exists()


def _cache_folder(artifacts: Sequence[Artifact], cache: Path | None) -> Path:
    names = sorted(f"{a} {a.transitive}" for a in artifacts)
    return (cache or cache_dir()) / "jars" / hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    # two Ivy processes in one cache corrupt each other's files
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w")  # noqa: SIM115
    except OSError as e:
        raise StartError(f"can't write to the cache {folder}: {e}; set XDG_CACHE_HOME to a folder you own") from e
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _retrieve(artifacts: Sequence[Artifact], java: Java, folder: Path, ready: Path) -> None:
    ready.mkdir(exist_ok=True)
    ivy = ready / "ivy.xml"
    ivy.write_text(_description(artifacts))
    try:
        trust = trust_options(folder)
    except OSError as e:
        raise StartError(str(e)) from e
    command = [
        java.executable,
        *trust,
        *("-jar", str(_ivy_jar())),
        *("-ivy", str(ivy), "-cache", str(folder / "ivy"), "-types", "jar", "bundle"),
        *("-retrieve", f"{ready}/[artifact]-[revision].[ext]"),
    ]
    wanted = ", ".join(map(str, artifacts))
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, "JAVA_HOME": str(java.home)}
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise StartError(f"can't fetch {wanted}: {e}") from e
    missing = [str(a) for a in artifacts if not (ready / f"{a.name}-{a.revision}.jar").exists()]
    if ran.returncode or missing:
        lines = [line.strip() for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
        said = [line for line in lines if "not found" in line or "unresolved" in line or "Exception" in line]
        raise StartError(f"can't fetch {', '.join(missing) or wanted}: {'; '.join((said or lines)[-3:])}")


def _description(artifacts: Sequence[Artifact]) -> str:
    lines = [
        f"<dependency org={quoteattr(a.organisation)} name={quoteattr(a.name)} rev={quoteattr(a.revision)}"
        f' conf="jars-&gt;{"default" if a.transitive else "master"}"/>'
        for a in artifacts
    ]
    return (
        '<ivy-module version="2.0"><info organisation="tidegate" module="jars"/>'
        '<configurations><conf name="jars"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>\n"
    )


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtra("fetching jars needs the Ivy of PySpark: install tidegate[spark]")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise StartError(f"no Ivy among the jars of PySpark ({spec.origin})")
    return found[-1]
