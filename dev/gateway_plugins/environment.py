"""The environment in which a plugin is tried: a virtual environment with its wheel, Tidegate and pytest."""

from __future__ import annotations

import importlib.util
import json
import site
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gateway_core import __version__
from gateway_core.contract.configs import SHIPPED
from gateway_core.contract.errors import StartError

from .processes import LIMIT_S, ran
from .project import Project
from .steps import Step, Stopped

_PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "15", "install")


class Environment:
    """A virtual environment. Raises `StartError` if it can't be made.

    It is clean if pip could install everything into it. Otherwise (`offline`, or no index can be reached) it sees the
    libraries of the environment that runs this, Tidegate among them; only the plugin's wheel is its own.
    """

    def __init__(self, folder: Path, *, offline: bool) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.clean = not offline
        with_pip = self.clean or importlib.util.find_spec("pip") is None
        try:
            venv.EnvBuilder(symlinks=True, with_pip=with_pip).create(folder)
        except Exception as e:  # `ensurepip` may be missing, and ends a process with an error of its own
            raise StartError(f"a virtual environment can't be made: {e} (Debian: install python3-venv)") from e
        if offline:
            self._share()

    def install(self, wheel: Path, project: Project) -> Step:
        """The step `install`. Raises `Stopped` if the wheel can't be installed."""
        step = Step("install")
        if self.clean:
            needs = [str(wheel), *_tidegate(), "pytest", *project.needs]
            done = ran([str(self.python), *_PIP, *needs], LIMIT_S)
            if not done.code:
                step.about = f"into a clean environment, with Tidegate {__version__}"
                return step
            step.warnings.append(f"not in a clean environment, with the libraries of this one: {done.last}")
            self.clean = False
            self._share()
        done = ran([str(self.python), *_PIP, "--no-deps", "--no-index", str(wheel)], LIMIT_S)
        if done.code:
            step.failures.append(f"pip can't install it: {done.last}")
            raise Stopped(step)
        step.about = "beside the libraries of this environment"
        return step

    def _share(self) -> None:
        """Lets the environment see the libraries of this one, behind its own."""
        (own,) = self.folder.glob("lib/python*/site-packages")
        lines = [f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages() if Path(path).is_dir()]
        (own / "_shared.pth").write_text("".join(lines), encoding="utf-8")


def _tidegate() -> list[str]:
    """What pip needs to install the Tidegate that runs this: its checkout, or its version at the index."""
    return [_origin(name) for name in SHIPPED]


def _origin(name: str) -> str:
    try:
        origin = json.loads(distribution(name).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = urlsplit(str(origin.get("url", "")))
    return unquote(url.path) if url.scheme == "file" else f"{name}=={__version__}"


def version() -> str:
    """The Python that runs this, as people write it."""
    return ".".join(map(str, sys.version_info[:3]))
