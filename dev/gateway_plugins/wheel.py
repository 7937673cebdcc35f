"""Builds a plugin's wheel, and looks at what is in it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import zipfile
from configparser import ConfigParser
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

from gateway_core.contract.hookspecs import GROUP

from .processes import LIMIT_S, ran
from .project import Project
from .steps import Step, Stopped, counted

_STRAY = re.compile(r"(^|/)(__pycache__|\.git|\.venv|\.pytest_cache|\.mypy_cache)/|\.py[co]$|~$|\.orig$|\.DS_Store$")
_NOT_COPIED = (".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache")
_NO_PACKAGE = {"tests", "test", "docs", "examples", "build", "dist", "src"}


def build(project: Project, folder: Path, python: Path, *, offline: bool) -> tuple[Step, Path]:
    """The step `build`, and the wheel. Raises `Stopped` if it can't be built.

    If the build backend is installed here it is used as it is; otherwise pip fetches it into an environment of its own.
    """
    step = Step("build")
    source = folder / "source"  # a copy, because some backends leave files behind
    shutil.copytree(project.folder, source, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    here = importlib.util.find_spec(project.backend.partition(":")[0].partition(".")[0]) is not None
    tool = [sys.executable if here and importlib.util.find_spec("pip") else str(python), "-P", "-m", "pip", "wheel"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    isolation = ["--no-build-isolation"] if here else []
    index = ["--no-index"] if offline else []
    done = ran([*tool, *quiet, *isolation, *index, "--wheel-dir", str(folder), str(source)], LIMIT_S)
    wheels = sorted(folder.glob("*.whl"))
    if done.code or len(wheels) != 1:
        step.failures.append(f"the wheel can't be built: {done.last}")
        raise Stopped(step)
    step.about = wheels[0].name
    return step, wheels[0]


def look_at(wheel: Path, project: Project) -> Step:
    """The step `wheel`: entry points, metadata, types, and nothing that does not belong there."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        own = [name for name in names if not PurePosixPath(name).parts[0].endswith((".dist-info", ".data"))]
        facts = {PurePosixPath(n).name: n for n in names if PurePosixPath(n).parts[0].endswith(".dist-info")}
        metadata = HeaderParser().parsestr(archive.read(facts["METADATA"]).decode())
        points = ConfigParser(delimiters="=", interpolation=None)
        points.optionxform = str  # type: ignore[assignment,method-assign]
        if "entry_points.txt" in facts:
            points.read_string(archive.read(facts["entry_points.txt"]).decode())
    step = Step("wheel", counted(len(own), "file"))
    if not own:
        step.failures.append("it is empty: tell the build backend where the package is")
    found = dict(points[GROUP]) if points.has_section(GROUP) else {}
    if found != project.points:
        step.failures.append(f"its entry points are {found or 'missing'}, those of pyproject.toml {project.points}")
    for point, value in found.items():
        path = value.partition(":")[0].strip().replace(".", "/")
        if f"{path}.py" not in own and f"{path}/__init__.py" not in own:
            step.failures.append(f"the module {value} of the entry point {point} is not in it")
    roots = {PurePosixPath(name).parts[0] for name in own}
    for root in sorted(roots & _NO_PACKAGE):
        step.failures.append(f"it installs a top-level folder {root!r}, which other packages may do, too")
    for name in sorted(name for name in own if _STRAY.search(name)):
        step.failures.append(f"a stray file: {name}")
    for name in sorted(r for r in roots if not r.endswith(".py") and f"{r}/__init__.py" not in own):
        if name not in _NO_PACKAGE:
            step.failures.append(f"{name!r} is not a package: no {name}/__init__.py")
    for root in sorted(r for r in roots if f"{r}/__init__.py" in own and f"{r}/py.typed" not in own):
        step.warnings.append(f"{root} has no py.typed: type checkers ignore its annotations")
    if not metadata.get_payload() and not metadata.get("Description"):
        step.warnings.append("its metadata have no long description: name a readme in pyproject.toml")
    return step
