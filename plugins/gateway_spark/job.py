"""What the gateway tells the process that runs Spark: one JSON line, typed on both sides."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True)
class Job:
    """One streaming query. `options` are those of the data source; `table` and `checkpoint` are absolute paths or URIs;
    `home` is a local folder of this trigger for locks and scratch files; `interval_ms` is the trigger's interval."""

    options: dict[str, str]
    table: str
    checkpoint: str
    home: str
    format: str = "parquet"
    data_schema: str | None = None
    columns: list[str] | None = None
    partition_by: list[str] = field(default_factory=list)
    master: str = "local[2]"
    interval_ms: int = 500
    memory: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    finish_s: float = 10.0

    def line(self) -> bytes:
        return msgspec.json.encode(asdict(self)) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Job:
        return msgspec.json.decode(line, type=cls)


def report(state: str, **facts: Any) -> bytes:
    """A line from the process: `state` is "starting", "running", "progress", "failed" or "stopped"."""
    return msgspec.json.encode({"state": state, **facts}) + b"\n"
