"""The options."""

from __future__ import annotations

from pathlib import Path

from gateway_core.contract.component import Config


class FileConfig(Config):
    """A file of events: one structured CloudEvent per line. Workers and other gateways can share it, and it can be
    rotated by moving it away."""

    path: Path
    """The file. Its directory is created."""
    fsync: bool = True
    """Whether an event must be on disk before it counts as delivered."""


class StdoutConfig(Config):
    """Standard output: one structured CloudEvent per line. It works only with a single worker."""
