"""The wheel for a cluster: the part of Tidegate that a Spark job needs, in pure Python, from the local installation."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distribution
from importlib.util import find_spec
from pathlib import Path

from gateway_core.contract.errors import StartError

# gateway_spark is the job; the others are for reading the log: its reader, and the filters that a trigger may name.
PACKAGES = (
    "gateway_spark",
    "gateway_core",
    "gateway_basics",
    "gateway_cesql",
    "gateway_java",
    "gateway_json",
    "gateway_log",
)
# Worker processes that read the log also need these; a job that reads Kafka only needs PySpark.
_LOG_READER = ("msgspec", "pluggy", "pydantic", "pyarrow")
_GROUP = "tidegate"
_BORN = (1980, 1, 1, 0, 0, 0)  # the same files always make the same wheel


def write_wheel(folder: Path) -> Path:
    """Writes `tidegate-VERSION+spark-py3-none-any.whl` (PyPA's binary distribution format) into a folder, which it
    creates if necessary; an older one of this name is replaced. Its name inside is `tidegate`, so that it takes
    precedence over an installed Tidegate later on the Python path. Raises `StartError`."""
    version = f"{distribution('tidegate').version}+spark"
    path = folder / f"tidegate-{version}-py3-none-any.whl"
    new = path.with_suffix(".new")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as wheel:
            _write(wheel, version)
        new.replace(path)
    except OSError as e:
        raise StartError(f"can't write {path}: {e}") from e
    return path


def _write(wheel: zipfile.ZipFile, version: str) -> None:
    info = f"tidegate-{version}.dist-info"
    files = {name: path.read_bytes() for package in PACKAGES for name, path in _files(package)}
    files[f"{info}/METADATA"] = _metadata(version).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tidegate\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = _entry_points().encode()
    record = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    for name, data in files.items():
        entry = zipfile.ZipInfo(name, _BORN)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        wheel.writestr(entry, data)


def _files(package: str) -> Iterator[tuple[str, Path]]:
    """(name in the wheel, file) of all that belongs to a package, but for what is compiled for this machine."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise StartError(f"the package {package} is not installed as files")
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*")):
        part = path.relative_to(root)
        if path.is_file() and "__pycache__" not in part.parts and not path.name.endswith((".so", ".pyd")):
            yield f"{package}/{part.as_posix()}", path


def _entry_points() -> str:
    mine = [p for p in distribution("tidegate").entry_points if p.group == _GROUP and _package(p) in PACKAGES]
    return "\n".join([f"[{_GROUP}]", *(f"{p.name} = {p.value}" for p in sorted(mine, key=lambda p: p.name)), ""])


def _package(point: EntryPoint) -> str:
    return re.split(r"[.:]", point.value, maxsplit=1)[0]


def _metadata(version: str) -> str:
    python = distribution("tidegate").metadata["Requires-Python"]
    lines = [
        "Metadata-Version: 2.1",
        "Name: tidegate",
        f"Version: {version}",
        "Summary: What a Spark cluster needs to run the tables of a Tidegate gateway.",
        f"Requires-Python: {python}",
        "Provides-Extra: log",
        *(f"Requires-Dist: {name} ; extra == 'log'" for name in _LOG_READER),
    ]
    return "\n".join([*lines, ""])


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
