"""The options."""

from __future__ import annotations

from pathlib import Path

from gateway_core.contract.component import Config


class DeadLetterConfig(Config):
    """A file of dead letters. With several workers each has its own, with `~1`, `~2`, … before the suffix."""

    path: Path | None = None
    """The file; default: `<data_dir>/dead-letter/<broker>.jsonl`. Its directory is created."""
    fsync: bool = True
    """Whether a dead letter must be on disk before its event is finished. Without it, a crash of the machine can lose
    dead letters; a crash of the gateway can't."""
