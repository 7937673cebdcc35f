"""The dead letters in the gateway's own files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway_deadletter.store import Store

from gateway_core.contract.event import text_of

from .history import Letter


def letters(data_dir: Path, at: float) -> Iterator[Letter]:
    """What a reader of the files finds."""
    for file in sorted(data_dir.glob("dead-letter*/*.jsonl")) + sorted(data_dir.glob("*dead*.jsonl")):
        for _, event in Store(file).entries():
            attributes = tuple((name, text_of(value)) for name, value in event.attributes.items())
            yield Letter(at, file.stem, attributes, event.data or b"")
