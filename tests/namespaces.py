"""Namespaces of Linux for a command of a test: what it mounts, is, or listens on is seen by nobody else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from gateway_dev.program import Missing


def own(*kinds: str) -> list[str]:
    """What goes before a command that is root in namespaces of these kinds of its own: `own("mount", "net")`."""
    return ["unshare", "--user", "--map-root-user", *(f"--{kind}" for kind in kinds)]


def need(entered: Sequence[str], what: str) -> None:
    """Raises `Missing` if no command runs behind `entered`, which begins as `own` says. `what` needs the namespaces."""
    if not shutil.which("unshare"):
        raise Missing(f"{what} needs namespaces, and there is no unshare on PATH")
    tried = subprocess.run([*entered, "true"], capture_output=True, text=True)
    if tried.returncode:
        raise Missing(f"{what} needs user namespaces: {tried.stderr.strip()}")
