"""Finds a server's program: on this machine, in an installed wheel, or in Debian's packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from gateway_core.contract.errors import StartError

from . import debian

FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin", "/usr/lib/rabbitmq/bin")
"""Where servers are installed that PATH does not list for an ordinary user."""


class Missing(StartError):
    """There is no such server on this machine, and it could not be fetched. The text says what was tried."""


@dataclass(frozen=True, slots=True)
class Program:
    """A server's program. `wheel` is the distribution on PyPI that brings it, `package` its name in Debian. From
    `newest_from` on, a version is new enough to be used without looking further."""

    name: str
    package: str
    wheel: str | None = None
    version_argument: str = "--version"
    newest_from: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class FoundProgram:
    """A program that was found: its file, its version (may be empty), and where it comes from. `root` is the folder
    into which Debian's packages were unpacked; `env` is what the program needs in its environment."""

    path: Path
    version: str
    origin: str
    root: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def installed(program: Program, env: Mapping[str, str] | None = None) -> FoundProgram | None:
    """The program on PATH, then in the folders of servers, then in the wheel, then unpacked before; None if there is
    none. If all are older than `newest_from`, the newest."""
    seen: list[FoundProgram] = []
    for found in _places(program, os.environ if env is None else env):
        if _number(found.version) >= program.newest_from:
            return found
        seen.append(found)
    return max(seen, key=lambda found: _number(found.version), default=None)


def find(program: Program, env: Mapping[str, str] | None = None) -> FoundProgram:
    """The program; unpacks Debian's packages if this machine has no other. Raises `Missing`."""
    env = os.environ if env is None else env
    if found := installed(program, env):
        return found
    tried = ["not on PATH"]
    if program.wheel:
        tried.append(f"{program.wheel} from PyPI is not installed")
    try:
        found = _unpacked(program, debian.unpack(program.package, env))
    except debian.Unavailable as e:
        tried.append(str(e))
    else:
        if found:
            return found
        tried.append(f"Debian's {program.package} has no such file")
    remedies = [f"apt-get install {program.package}", *([f"pip install {program.wheel}"] if program.wheel else [])]
    raise Missing(
        f"{program.name} is needed and there is none on this machine: {'; '.join(tried)}; "
        f"install it: {' or '.join(remedies)}"
    )


def _places(program: Program, env: Mapping[str, str]) -> list[FoundProgram]:
    found: list[FoundProgram] = []
    path = os.pathsep.join([env.get("PATH", ""), *FOLDERS])
    if on_path := shutil.which(program.name, path=path):
        found.append(FoundProgram(Path(on_path), _version(program, Path(on_path), {}), "PATH"))
    if program.wheel and (file := _from_wheel(program.wheel, program.name)):
        found.append(FoundProgram(file, _version(program, file, {}), f"{program.wheel} from PyPI"))
    if not found and (root := debian.unpacked(program.package, env)) and (one := _unpacked(program, root)):
        found.append(one)
    return found


def _from_wheel(wheel: str, name: str) -> Path | None:
    with suppress(PackageNotFoundError):
        for file in distribution(wheel).files or ():
            path = Path(str(file.locate()))
            if file.name == name and os.access(path, os.X_OK):
                return path.resolve()
    return None


def _unpacked(program: Program, root: Path) -> FoundProgram | None:
    env = debian.environment(root)
    for folder in ("usr/sbin", "usr/bin", "usr/lib/rabbitmq/bin"):
        file = root / folder / program.name
        if file.exists():
            return FoundProgram(file, _version(program, file, env), "Debian's packages", root, env)
    return None


def _version(program: Program, file: Path, env: Mapping[str, str]) -> str:
    if not program.version_argument:
        return ""
    with suppress(OSError, subprocess.TimeoutExpired):
        command = [str(file), program.version_argument]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **env})
        if match := re.search(r"\d+\.\d+(\.\d+)?", done.stdout + done.stderr):
            return match[0]
    return ""


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else (0,)
