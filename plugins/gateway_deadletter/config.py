"""The options."""

from __future__ import annotations

from pathlib import Path

from gateway_core.component import Config


class DeadLetterConfig(Config):
    """A file of dead letters. With several workers each has its own: `~1`, `~2`, … stands before the suffix."""

    path: Path | None = None
    """The file; `<data_dir>/dead-letter/<broker>.jsonl` where absent. Its directory is made."""
    fsync: bool = True
    """Whether a letter must be on the disk before its event is done with. Without it a crash of the machine can lose
    letters; a crash of the gateway can't."""
