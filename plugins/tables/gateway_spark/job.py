"""One streaming query as data: one JSON line, the same for the gateway's own process and for spark-submit. Needs only
Python, like everything that a submitted job imports."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

LOG = "log"
KAFKA = "kafka"


@dataclass(frozen=True)
class Job:
    """One streaming query. `channel` says what it reads: "log" (the Python data source) or "kafka" (Spark's own
    source). `options` are those of that source, except `filters` and `attributes`, which both support. `table` and
    `checkpoint` are absolute paths or URIs; `table` may contain `{type}` for one table per event type. `home` is a
    local folder of this trigger for locks and scratch files; `interval_ms` is the trigger interval. `data_schema` maps
    an event type ("*" for all others) to Spark DDL, or to "infer". `adopt`: tables of another query are taken over;
    `channel_id` says what is read, in tables and messages. `from_start`: a table that has nothing is filled from the
    beginning of the channel, where `firsts` were the first positions, and not from those in `options`. `began`: where
    the trigger once began, if the channel knows."""

    options: dict[str, str]
    table: str
    checkpoint: str
    home: str
    name: str = "table"
    channel: str = LOG
    format: str = "parquet"
    quarantine: str = ""
    data_schema: dict[str, str] = field(default_factory=dict)
    evolve: bool = True
    infer_sample: int = 1000
    columns: list[str] | None = None
    partition_by: list[str] = field(default_factory=list)
    cluster_by: list[str] = field(default_factory=list)
    late_s: float | None = None
    deduplicate_s: float | None = None
    max_tables: int = 100
    master: str = "local[2]"
    interval_ms: int = 500
    memory: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    packages: dict[str, list[str]] = field(default_factory=dict)
    ui: bool = True
    finish_s: float = 10.0
    adopt: bool = False
    channel_id: str = ""
    from_start: bool = False
    firsts: dict[str, int] = field(default_factory=dict)
    began: dict[str, int] = field(default_factory=dict)

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Job:
        return cls(**json.loads(line))


def report(state: str, **facts: Any) -> bytes:
    """A report of the process: `state` is "starting", "begins", "running", "progress", "failed", "note" or
    "stopped"."""
    return json.dumps({"state": state, **facts}).encode() + b"\n"
