"""A process with a Spark sink: a stand-in for a gateway that tests can kill. Ends when its standard input does."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from gateway_log.reader import LogReader

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, SinkRef


class Feed:
    """A log's place for a reader, kept in memory: after a start Spark's own checkpoint must be enough."""

    name = "made"

    def __init__(self, location: str, options: dict[str, Any], start: dict[str, int]) -> None:
        self.location = location
        self.options = {"kind": "log", **options}
        self.start = start
        self.advanced: list[Mapping[str, int]] = []

    def advance(self, offsets: Mapping[str, int]) -> None:
        self.advanced.append(dict(offsets))

    def ends(self) -> Mapping[str, int]:
        with LogReader(self.location) as log:
            return {str(s): log.bounds(s)[1] for s in log.shards()}


async def main(job: dict[str, Any]) -> None:
    registry = Registry.installed()
    context = BuildContext("triggers.made.subscriber", Path(job["data_dir"]), SystemClock(), registry, trigger="made")
    sink = registry.build(SinkRef("spark", job["config"]), context)
    feed = Feed(job["log"], job.get("options", {}), job.get("start", {}))
    async with anyio.create_task_group() as tasks:
        await sink.start_reading(feed, tasks)
        tasks.start_soon(write_state, sink, feed, Path(job["state"]))
        await anyio.to_thread.run_sync(sys.stdin.buffer.read)
        await sink.stop()
        tasks.cancel_scope.cancel()


async def write_state(sink: Any, feed: Feed, path: Path) -> None:
    while True:
        new = path.with_suffix(".new")
        new.write_text(json.dumps({**sink.state(), "advanced": feed.advanced[-100:]}))
        new.replace(path)
        await anyio.sleep(0.05)


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
