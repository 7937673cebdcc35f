"""Debian's packages, unpacked into Tidegate's cache: apt downloads them and dpkg unpacks them, without root."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway_java.java import cache_dir

TIMEOUT_S = 300
_PATIENCE = ("-oAcquire::Retries=1", "-oAcquire::http::Timeout=20", "-oAcquire::https::Timeout=20")
_TOOLS = ("apt-get", "dpkg-deb")
_DONE = "unpacked"


class Unavailable(Exception):
    """The packages could not be had; the text says why, in one line."""


def unpacked(package: str, env: Mapping[str, str] | None = None) -> Path | None:
    """The folder into which `unpack` has put the package, or None."""
    root = _folder(package, env)
    return root if (root / _DONE).exists() else None


def unpack(package: str, env: Mapping[str, str] | None = None, options: Sequence[str] = ()) -> Path:
    """Downloads the package and those that it depends on and that this machine lacks, and unpacks them; returns the
    folder. Takes up to a minute the first time. `options` are apt's. Raises `Unavailable`."""
    if absent := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise Unavailable(f"no {absent[0]} to fetch Debian's {package} with")
    root = _folder(package, env)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with (root.parent / f"{package}.lock").open("w") as lock:  # workers of a test run come at the same time
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / _DONE).exists():
                print(f"tidegate: fetching Debian's {package}", file=sys.stderr)
                _fetch(package, root, options)
    except OSError as e:
        raise Unavailable(f"can't write to {root}: {e}") from e
    return root


def environment(root: Path) -> dict[str, str]:
    """What a program in this folder needs to find its libraries and other programs."""
    libraries = _library_folders(root)
    programs = [str(root / folder) for folder in ("usr/sbin", "usr/bin", "sbin", "bin")]
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [*libraries, os.environ.get("LD_LIBRARY_PATH", "")])),
        "PATH": os.pathsep.join([*programs, os.environ.get("PATH", "")]),
    }


def _library_folders(root: Path) -> list[str]:
    # also those in folders of their own, which other libraries find by an absolute path: libpulse its libpulsecommon
    found = (file for base in ("usr/lib", "lib") for file in (root / base).glob("*-linux-*/**/lib*.so*"))
    return sorted({str(file.parent) for file in found}, key=len)


def _name_libraries(root: Path) -> None:
    """Links libraries by the name that programs look for: some packages leave that to the ldconfig of their
    installation. Without an ldconfig, nothing."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    folders = _library_folders(root)
    if folders and (ldconfig := shutil.which("ldconfig", path=path)):
        _call(ldconfig, "-n", *folders)


def _folder(package: str, env: Mapping[str, str] | None) -> Path:
    return cache_dir(env) / "debian" / package


def _fetch(package: str, root: Path, options: Sequence[str]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    archives = root / "archives"
    archives.mkdir(parents=True)
    options = [*_PATIENCE, *options]
    if (wanted := _wanted(package, options)) is None or not _downloaded(wanted, archives, options):
        options = [*options, *_own_lists(root.parent / "apt")]  # those of the system are empty or old
        _run("apt-get", "update", *options)
        if (wanted := _wanted(package, options)) is None:
            raise Unavailable(f"apt-get knows no {package}, or can't resolve what it depends on")
        _run("apt-get", "download", *options, *wanted, cwd=archives)
    for archive in sorted(archives.glob("*.deb")):
        _run("dpkg-deb", "-x", str(archive), str(root))
    shutil.rmtree(archives)
    _name_libraries(root)
    (root / _DONE).touch()


def _wanted(package: str, options: Sequence[str]) -> list[str] | None:
    """The package, and what it depends on and is not installed; None if apt does not know it."""
    arguments = ("install", "--simulate", "--reinstall", "--no-install-recommends", *options, package)
    done = _call("apt-get", *arguments)
    names = re.findall(r"^Inst (\S+)", done.stdout, re.MULTILINE)
    return names if done.returncode == 0 and package in names else None


def _downloaded(wanted: Sequence[str], archives: Path, options: Sequence[str]) -> bool:
    return _call("apt-get", "download", *options, *wanted, cwd=archives).returncode == 0


def _own_lists(folder: Path) -> list[str]:
    """apt's lists in a folder of ours: those of the system may be empty, and only root may fill them."""
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    return [
        f"-oDir::State::lists={folder / 'lists'}",
        f"-oDir::Cache={folder}",
        f"-oDir::Cache::archives={folder / 'archives'}",
        "-oAPT::Sandbox::User=root" if os.geteuid() == 0 else "-oDebug::NoLocking=1",
    ]


def _run(*command: str, cwd: Path | None = None) -> None:
    done = _call(*command, cwd=cwd)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg"))] or [done.stderr.strip()]
        raise Unavailable(f"{' '.join(command[:2])}: {said[0].removeprefix('E: ')}")


def _call(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Unavailable(f"{command[0]}: {e}") from e
