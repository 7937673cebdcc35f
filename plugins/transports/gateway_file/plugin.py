"""The plugin's hooks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gateway_core.contract.component import BuildContext, Component, Transport
from gateway_core.contract.errors import StartError
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from .config import FileConfig, StdoutConfig
    from .sink import FileSink, LineSink


def build_file(config: FileConfig, context: BuildContext) -> FileSink:
    """A sink that appends to a file. Raises `StartError` if there can be no such file."""
    from .places import refuse_place
    from .sink import FileSink

    path = config.path.absolute()
    refuse_place(path, context)
    return FileSink(path, context, fsync=config.fsync)


def build_stdout(config: StdoutConfig, context: BuildContext) -> LineSink:
    """A sink that writes to the current standard output. Raises `StartError` if there are several workers."""
    from .line_writer import StreamTarget
    from .sink import LineSink

    if context.workers > 1:
        # the first worker reads the state of the others from their standard output
        raise StartError(f"{context.owner}: stdout works with a single worker only; use file with several")
    return LineSink("stdout", StreamTarget(sys.stdout), context)


@hookimpl
def gateway_transports() -> list[Transport]:
    from . import guarantees
    from .config import FileConfig, StdoutConfig

    return [
        Transport(
            "file",
            sink=Component(
                "file",
                "Appends events to a file, as JSON lines.",
                FileConfig,
                build_file,
                guarantees=guarantees.FILE,
            ),
        ),
        Transport(
            "stdout",
            sink=Component(
                "stdout",
                "Writes events to standard output, as JSON lines.",
                StdoutConfig,
                build_stdout,
                guarantees=guarantees.STDOUT,
            ),
        ),
    ]
