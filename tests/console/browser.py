"""The browser of the tests: the one on PATH, or Debian's package unpacked without root, or the one that Playwright
fetches. Without any the tests fail: nothing else shows that a page works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gateway_dev import debian

from gateway_core.contract.errors import StartError

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PACKAGE = "chromium-headless-shell"  # takes two thirds of the CPU of `chromium`
_FETCH_S = 240


@dataclass(frozen=True, slots=True)
class Browser:
    """A Chromium: its program, None for the one that Playwright has; and what it needs in its environment."""

    program: str | None
    env: dict[str, str] = field(default_factory=dict)


@cache
def find() -> Browser:
    """The browser; fetches one if this machine has none. Raises `StartError`."""
    for name in _NAMES:
        if program := shutil.which(name):
            return Browser(program)
    tried = [f"none of {', '.join(_NAMES)} on PATH"]
    try:
        root = debian.unpacked(_PACKAGE) or debian.unpack(_PACKAGE)
        file = root / "usr/lib/chromium/chromium-headless-shell"
        if file.exists():
            return Browser(str(file), {**os.environ, **debian.environment(root), "FONTCONFIG_PATH": _fonts(root)})
        tried.append(f"Debian's {_PACKAGE} has no such file")
    except debian.Unavailable as e:
        tried.append(str(e))
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


def _fonts(root: Path) -> str:
    """Where the configuration of fonts is: the system's, or that of the unpacked packages."""
    own = Path("/etc/fonts")
    return str(own if own.exists() else root / "etc/fonts")


if __name__ == "__main__":  # `make test` fetches it before a test's time limit counts
    try:
        find()
    except StartError as e:
        print(f"tidegate: {e}", file=sys.stderr)
