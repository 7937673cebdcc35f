"""What the plugin offers."""

from __future__ import annotations

import sys

from gateway_core.component import BuildContext, Component, Transport
from gateway_core.errors import StartError
from gateway_core.hookspecs import hookimpl
from gateway_core.linewriter import FileTarget, StreamTarget

from .config import FileConfig, StdoutConfig
from .sink import LineSink


def build_file(config: FileConfig, context: BuildContext) -> LineSink:
    """A sink that appends to a file."""
    path = config.path.absolute()
    return LineSink(path.as_uri(), FileTarget(path, config.fsync), context)


def build_stdout(config: StdoutConfig, context: BuildContext) -> LineSink:
    """A sink that writes to standard output, as it is now. Raises `StartError` where there are several workers."""
    if context.workers > 1:
        # the others' standard output is how the first worker learns of their state
        raise StartError(f"{context.owner}: stdout works with one worker only; file can be shared by several")
    return LineSink("stdout", StreamTarget(sys.stdout.fileno()), context)


@hookimpl
def gateway_transports() -> list[Transport]:
    return [
        Transport("file", sink=Component("file", "Appends events to a file, as JSON lines.", FileConfig, build_file)),
        Transport(
            "stdout",
            sink=Component("stdout", "Writes events to standard output, as JSON lines.", StdoutConfig, build_stdout),
        ),
    ]
