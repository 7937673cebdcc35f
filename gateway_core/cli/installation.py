"""`tidegate version`: what is installed."""

from __future__ import annotations

import platform
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from typing import Literal

import typer

from ..contract.cli.common import print_json
from ..contract.version import __version__


def print_version(*, as_json: bool) -> None:
    """The version and the build; as JSON also Python and the machine."""
    if as_json:
        # `platform.platform()` would start a process
        machine = f"{platform.system()}-{platform.release()}-{platform.machine()}"
        built = {"build": build(), "python": platform.python_version(), "platform": machine}
        print_json({"version": __version__, **built})
    else:
        typer.echo(f"tidegate {__version__} ({build()})")


def build() -> Literal["pure", "compiled"]:
    """Which build runs: "compiled" if Python found the compiled modules of the wheel."""
    spec = find_spec("gateway_core.contract.event")
    return "compiled" if spec is not None and isinstance(spec.loader, ExtensionFileLoader) else "pure"
