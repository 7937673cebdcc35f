"""The options."""

from __future__ import annotations

from pathlib import Path

from gateway_core.contract.component import Config


class FileConfig(Config):
    """A file of events: one CloudEvent in the JSON format per line, which an ingress takes back. An event's key becomes
    the extension `partitionkey`, or in Base64 `keybase64` if it is no text or the event has another `partitionkey`.
    Workers and other gateways can share the file, and it can be rotated by moving it away."""

    path: Path
    """The file. Its directory is created."""
    fsync: bool = True
    """Whether an event must be on disk before it counts as delivered."""


class StdoutConfig(Config):
    """Standard output: one structured CloudEvent per line. It works only with a single worker."""
