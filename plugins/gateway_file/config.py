"""The options."""

from __future__ import annotations

from pathlib import Path

from gateway_core.component import Config


class FileConfig(Config):
    """A file of events: one structured CloudEvent a line. Workers and other gateways may share it, and it may be
    rotated by moving it away."""

    path: Path
    """The file. Its directory is made."""
    fsync: bool = True
    """Whether an event must be on the disk before it counts as delivered."""


class StdoutConfig(Config):
    """Standard output: one structured CloudEvent a line. It works with one worker only."""
