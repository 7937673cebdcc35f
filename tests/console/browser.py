"""The browser of the tests: the lightest one that this machine has or can fetch. Without any the tests fail: nothing
else shows that a page works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gateway_dev import debian
from playwright._impl._driver import compute_driver_executable

from gateway_core.contract.errors import StartError

_LIGHT = "chromium-headless-shell"
"""Also the name of Debian's package. It takes a third of the CPU of `chromium`."""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_COMMON = "chromium-common"
"""Files that both need. apt leaves them out where the whole `chromium` is installed."""
_DRIVERS_LIBRARY, _DRIVERS_PACKAGE = "libatomic.so.1", "libatomic1"
_FETCH_S = 240
_PROBE_S = 60


@dataclass(frozen=True, slots=True)
class Browser:
    """A Chromium: its program, None for the one that Playwright has; and what it needs in its environment."""

    program: str | None
    env: dict[str, str] = field(default_factory=dict)


@cache
def find(*, lighter: bool = False) -> Browser:
    """The browser; fetches one if this machine has none, with `lighter` even if it has only one that takes more CPU.
    Raises `StartError`."""
    _let_the_driver_run()
    if program := shutil.which(_LIGHT):
        return Browser(program)
    tried = [f"none of {', '.join((_LIGHT, *_NAMES))} on PATH"]
    installed = next((program for name in _NAMES if (program := shutil.which(name))), None)
    try:
        return _unpacked(fetch=lighter or installed is None)
    except debian.Unavailable as e:
        tried.append(str(e))
    if installed is not None:
        return Browser(installed)
    done = subprocess.run(
        [sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"],
        capture_output=True,
        text=True,
        timeout=_FETCH_S,
        check=False,
    )
    if done.returncode == 0:
        return Browser(None)
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    tried.append(f"`playwright install chromium` failed: {said[0] if said else done.returncode}")
    raise StartError(f"a browser is needed and there is none on this machine: {'; '.join(tried)}")


def _let_the_driver_run() -> None:
    """Finds Playwright's driver a library that small installations of Debian lack. Raises `StartError`."""
    node, _ = compute_driver_executable()
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    if _DRIVERS_LIBRARY not in done.stderr:
        return
    try:
        root = debian.unpack(_DRIVERS_PACKAGE)
    except debian.Unavailable as e:
        raise StartError(f"Playwright's driver lacks {_DRIVERS_LIBRARY}: {e}") from e
    os.environ["LD_LIBRARY_PATH"] = debian.environment(root)["LD_LIBRARY_PATH"]


def _unpacked(*, fetch: bool) -> Browser:
    """Debian's package in the cache, `fetch`ed if need be. Raises `debian.Unavailable`."""
    root = _root(_LIGHT, fetch=fetch)
    folder = root / "usr/lib/chromium"
    environment = {**os.environ, **debian.environment(root), "FONTCONFIG_PATH": _fonts(root)}
    found = Browser(str(folder / _LIGHT), environment)
    works = root / "works"
    if not works.exists():
        if not (folder / "icudtl.dat").exists():
            for file in (_root(_COMMON, fetch=fetch) / "usr/lib/chromium").iterdir():
                with suppress(FileExistsError):
                    (folder / file.name).symlink_to(file)
        _probe(found)
        works.touch()
    return found


def _root(package: str, *, fetch: bool) -> Path:
    root = debian.unpacked(package) or (debian.unpack(package) if fetch else None)
    if root is None:
        raise debian.Unavailable(f"Debian's {package} was not fetched yet")
    return root


def _probe(browser: Browser) -> None:
    """Raises `debian.Unavailable` unless it shows a page."""
    command = [str(browser.program), "--no-sandbox", "--disable-gpu", "--dump-dom", "about:blank"]
    try:
        done = subprocess.run(command, env=browser.env, capture_output=True, text=True, timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise debian.Unavailable(f"Debian's {_LIGHT} does not run: {e}") from e
    if done.returncode or "<html" not in done.stdout:
        raise debian.Unavailable(f"Debian's {_LIGHT} does not run (exit code {done.returncode})")


def _fonts(root: Path) -> str:
    """Where the configuration of fonts is: the system's, or that of the unpacked packages."""
    own = Path("/etc/fonts")
    return str(own if own.exists() else root / "etc/fonts")


if __name__ == "__main__":  # `make test` fetches it before a test's time limit counts
    try:
        find(lighter=True)
    except StartError as e:
        print(f"tidegate: {e}", file=sys.stderr)
