"""Iceberg tables, on the Spark that has a connector for them: a PySpark of an older line, in an environment of its own.
What runs there imports nothing of the tests but `iceberg_parts.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_spark.job import Job

from tests.sdk.environments import pyspark
from tests.spark.conftest import LIMIT_S, QUICK, Log
from tests.spark.iceberg_environment import environment_with

pytestmark = [pytest.mark.spec("CARD-03"), pytest.mark.timeout(900)]
JSON = "application/json"


class Driver:
    """The process that the gateway runs for a table, on that other PySpark."""

    def __init__(self, job: Job, environment: dict[str, str]) -> None:
        self.job = job
        self._environment = environment
        self.killed = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Path(job.checkpoint).with_name("checkpoint.lock")

    def start(self) -> None:
        command = [str(pyspark("4.1")), "-m", "gateway_spark.driver"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment)
        assert self._process.stdin is not None
        self._process.stdin.write(self.job.line())
        self._process.stdin.flush()

    def kill_between_table_and_checkpoint(self) -> int:
        """Kills driver and JVM once the table has a batch that the checkpoint has not; gives the batch's number."""
        checkpoint, hint = Path(self.job.checkpoint), Path(self.job.table, "metadata", "version-hint.text")
        before, end = written(hint), time.monotonic() + LIMIT_S
        while True:
            assert self._process is not None
            assert self._process.poll() is None, "the driver ended"
            assert time.monotonic() < end, "no batch was seen in the table"
            batch = max((int(p.name) for p in checkpoint.glob("offsets/[0-9]*")), default=-1)
            at = written(hint)
            if at > before and not (checkpoint / "commits" / str(batch)).exists():
                break
            before = at
            time.sleep(0.001)
        lock = json.loads(self._lock.read_bytes())
        os.kill(lock["jvm"][0], signal.SIGKILL)
        self.end(signal.SIGKILL)
        assert not (checkpoint / "commits" / str(batch)).exists()
        self.killed += 1
        return batch

    def run_until(self, ends: dict[str, int]) -> list[dict[str, Any]]:
        """Waits until all before these positions is in the table, and stops; gives the reports."""
        assert self._process is not None
        assert self._process.stdout is not None
        reports = []
        for line in self._process.stdout:
            reports.append(json.loads(line))
            assert reports[-1]["state"] != "failed", reports[-1]
            if reports[-1].get("ends") == ends:
                assert self._process.stdin is not None
                self._process.stdin.write(b"stop\n")
                self._process.stdin.flush()
        assert reports[-1]["state"] == "stopped"
        self.end()
        return reports

    def end(self, number: int | None = None) -> None:
        if self._process is None:
            return
        if number is not None:
            self._process.send_signal(number)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()
        self._process = None


def written(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_with(tmp_path)


@pytest.fixture
def driver(tmp_path: Path, log: Log, environment: dict[str, str]) -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def make(**more: Any) -> Driver:
        options = {"location": str(log.folder), "startingOffsets": "earliest", "maxEventsPerTrigger": "20"}
        home = tmp_path / "home"
        home.mkdir()
        place, checkpoint = str(tmp_path / "streamed" / "table"), str(home / "checkpoint")
        job = Job(options, place, checkpoint, str(home), format="iceberg", conf=QUICK, **more)
        made.append(Driver(job, environment))
        return made[-1]

    yield make
    for each in made:
        each.end(signal.SIGKILL)


@pytest.mark.full
@pytest.mark.usefixtures("own_spark")
def test_iceberg_tables(
    tmp_path: Path,
    log: Log,
    event: Callable[..., Any],
    driver: Callable[..., Driver],
    environment: dict[str, str],
) -> None:
    ledger: dict[str, str] = {}
    bad = {"none": "no JSON", "other": '{"n": "many"}'}

    def append(first: int, data: Callable[[int], str]) -> None:
        for n in range(first, first + 60):
            ledger[str(n)] = data(n)
            time_of = f"2026-01-0{1 + n % 2}T10:00:00Z"
            log.append(event(str(n), data(n).encode(), datacontenttype=JSON, time=time_of))

    append(1, lambda n: f'{{"n": {n}}}')
    target = driver(data_schema={"*": "infer"}, partition_by=["date", "hour"], cluster_by=["id"], interval_ms=100)
    target.start()
    target.kill_between_table_and_checkpoint()
    append(61, lambda n: f'{{"n": {n}, "more": {{"x": "{n}"}}}}')
    target.start()
    target.kill_between_table_and_checkpoint()
    for name, data in bad.items():
        log.append(event(name, data.encode(), datacontenttype=JSON))
    target.start()
    reports = target.run_until({"0": 123})
    assert max(r["rows"] for r in reports if "rows" in r) <= 20
    assert target.killed == 2
    found = parts(tmp_path, target.job.table, environment)
    check_streamed(found["streamed"][target.job.table], ledger, bad)
    check_parts(found)


def parts(folder: Path, place: str, environment: dict[str, str]) -> dict[str, Any]:
    command = [str(pyspark("4.1")), str(Path(__file__).with_name("iceberg_parts.py"))]
    ran = subprocess.run(
        [*command, str(folder), place, json.dumps(QUICK)], env=environment, capture_output=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr.decode()[-3000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def check_streamed(found: dict[str, Any], ledger: dict[str, str], bad: dict[str, str]) -> None:
    assert sorted(found["rows"]) == sorted([id, data] for id, data in ledger.items())
    assert sorted(row[:2] for row in found["refused"]) == sorted([id, data] for id, data in bad.items())
    assert all(reason for *_, reason in found["refused"])
    assert found["type"] == "struct<n:bigint,more:struct<x:string>>"
    assert found["partitions"] == ["date=2026-01-01", "date=2026-01-02"]


def check_parts(found: dict[str, Any]) -> None:
    written, one = {"all": 4, "bad": 1}, {"all": 1, "bad": 1}
    once = found["once"]
    assert once.pop("none").startswith("there is no iceberg table at")
    assert once == {
        "schema before": None,
        "appended": [written] * 3,
        "again": None,
        "restarted": [None, None, written],
        "only bad": one,
        "empty": {"all": 0, "bad": 0},
        "after empty": None,
        "other query": written,
        "batches": {"0": 3, "1": 6, "2": 3, "3": 3},
    }
    evolution = found["evolution"]
    assert "column.batch was INT and now is STRING" in evolution.pop("conflict")
    assert evolution == {
        "data": {"0": {"a": 1, "bc": None}, "1": {"a": 2, "bc": [{"x": "t"}]}, "2": None, "3": {"a": 3, "bc": None}},
        "folders": [f"batch={n}" for n in range(4)],
        "backwards": [0, 1, 2],
    }
    assert "'tidegate.lacks.q1'" in found["expired"].pop("unknown")
    assert found["expired"] == {"has it": None, "lacks it": written, "new one": written}
    columns = ["id", "batch", "more"]
    assert found["catalog"] == {"again": None, "columns": columns, "batches": {"0": 3, "1": 3, "2": 3}, "compacted": 3}
    assert "has no column 'none'" in found["maintenance"].pop("no column")
    assert found["maintenance"] == {
        "dry": 4,
        "compacted": [4, 1],
        "deleted": 6,
        "rows": 6,
        "files": 1,
        "goes on": written,
        "knows": None,
        "nowhere": None,
    }
