"""Kills a part of a Spark sink at a step of a micro-batch, seen from the folders that the step leaves its mark in."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from gateway_spark.query_run import offsets
from gateway_testing.process import GatewayProcess

from tests.processes import descendants
from tests.spark.channels import Channel

Part = Literal["jvm", "driver", "worker", "gateway", "disk", "broker"]
Step = Literal["offsets", "files", "commit", "cursor"]
STEPS: tuple[Step, ...] = ("offsets", "files", "commit", "cursor")
"""After a batch's write-ahead offsets are on disk; after a data file of it is whole; after the table has it; after the
checkpoint has it, before the gateway knows."""
LIMIT_S = 300.0
_PAUSE_S = 0.0005


class Killer:
    """Works on a gateway with the trigger `table`. `struck` counts the kills: (part, step aimed at, step that it
    hit)."""

    def __init__(self, gateway: GatewayProcess, channel: Channel, table: Path, format: str, seed: int) -> None:
        self.struck: Counter[tuple[Part, Step, str]] = Counter()
        self._gateway = gateway
        self._channel = channel
        self._table = table
        self._log = table / {"parquet": "_spark_metadata", "delta": "_delta_log"}[format]
        self._checkpoint = gateway.data_dir / "spark" / "table" / "checkpoint"
        self._random = random.Random(seed)

    def strike(self, part: Part, step: Step) -> None:
        """Waits until a batch is at that step, and kills; then waits until the batch is committed all the same."""
        self._running()
        workers = self._workers() if part == "worker" else []
        while True:
            batch = self._await(step)
            if batch is not None:
                break
        self._kill(part, workers)
        hit = self._step_of(batch)
        self.struck[part, step, hit] += 1
        if part == "gateway":
            self._gateway.start()
        self._until(lambda: (self._checkpoint / "commits" / str(batch)).exists(), f"batch {batch} after {part}/{step}")

    # -- what is seen ------------------------------------------------------------------------------------------------

    def _await(self, step: Step) -> int | None:
        """The number of a batch that is at that step now; None where it went by unseen."""
        planned = _last(self._checkpoint / "offsets")
        files, commits = self._files(), self._commits()
        batch = planned + 1 if step == "offsets" else _last(self._checkpoint / "commits") + 1
        at_end = self._checkpoint / "commits" / str(batch)
        begun = self._checkpoint / "offsets" / str(batch)
        seen: Callable[[], bool] = {
            "offsets": begun.exists,
            "files": lambda: begun.exists() and any(map(_whole, self._files() - files)),
            "commit": lambda: begun.exists() and bool(self._commits() - commits),
            "cursor": at_end.exists,
        }[step]
        end = time.monotonic() + LIMIT_S
        while not seen():
            if at_end.exists():
                return None
            assert time.monotonic() < end, f"no batch came to the step {step}: {self._gateway.log()}"
            time.sleep(_PAUSE_S)
        return batch

    def _step_of(self, batch: int) -> str:
        """How far the batch was when it was hit, as far as one can still see."""
        if (self._checkpoint / "commits" / str(batch)).exists():
            ends = offsets((self._checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])
            return "cursor" if self._channel.place(self._gateway.data_dir) != ends else "behind"
        if self._has(batch):
            return "commit"
        made = (self._checkpoint / "offsets" / str(batch)).stat().st_mtime
        return "files" if any(_made(p) >= made and _whole(p) for p in self._files()) else "offsets"

    def _has(self, batch: int) -> bool:
        """Whether the table has the batch."""
        if self._log.name == "_spark_metadata":
            return any((self._log / name).exists() for name in (str(batch), f"{batch}.compact"))
        last = max((p for p in self._commits() if p.suffix == ".json"), key=lambda p: p.name, default=None)
        actions = map(json.loads, _lines(last) if last else [])
        return any(action.get("txn", {}).get("version") == batch for action in actions)

    def _files(self) -> set[Path]:
        try:
            return {p for p in self._table.iterdir() if p.name.startswith("part-")}
        except OSError:
            return set()

    def _commits(self) -> set[Path]:
        try:
            return {p for p in self._log.iterdir() if p.name[0].isdigit()}
        except OSError:
            return set()

    def _running(self) -> None:
        def runs() -> bool:
            return self._gateway.trigger("table")["reader"]["state"] == "running"

        self._until(runs, "the query to run")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        self._gateway.wait_until(condition, LIMIT_S, what)

    # -- what is done ------------------------------------------------------------------------------------------------

    def _kill(self, part: Part, workers: list[int]) -> None:
        if part == "gateway":
            self._gateway.kill()
        elif part == "broker":
            self._channel.kill()
        elif part == "disk":  # every write to a file fails from now on: the disk is full
            resource.prlimit(self._pid("jvm"), resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        elif part == "worker":
            self._random.shuffle(workers)
            for pid in workers:
                try:
                    os.kill(pid, signal.SIGKILL)
                    break
                except ProcessLookupError:  # idle ones end
                    continue
        else:
            os.kill(self._pid(part), signal.SIGKILL)

    def _pid(self, part: str) -> int:
        holders = json.loads(self._checkpoint.with_name("checkpoint.lock").read_text())
        pid: int = holders[part][0]
        return pid

    def _workers(self) -> list[int]:
        """The Python processes that the JVM has begun: those that read, and those that plan."""
        return sorted(descendants(self._pid("jvm")))


def _last(folder: Path) -> int:
    try:
        return max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=-1)
    except OSError:
        return -1


def _whole(file: Path) -> bool:
    """Whether a parquet file has its end."""
    try:
        with file.open("rb") as f:
            return f.seek(0, os.SEEK_END) > 8 and f.seek(-4, os.SEEK_END) > 0 and f.read() == b"PAR1"
    except OSError:
        return False


def _made(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines()
