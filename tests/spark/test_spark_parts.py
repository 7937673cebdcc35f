"""The parts of the Spark plugin that need no Spark: offsets, times, locks, the supervisor, the config."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_java.jars import Artifact
from gateway_spark import connectors
from gateway_spark.config import SparkSinkConfig
from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from gateway_spark.processes import Lock, lock_of
from gateway_spark.query import artifacts_of
from gateway_spark.source import offsets
from gateway_spark.source.schema import decode_events, is_json, micros
from gateway_spark.supervisor import Supervisor
from gateway_spark.tables.mark import Owner
from gateway_spark.tables.owner import location_of
from pydantic import ValidationError

from gateway_core.contract.errors import StartError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T02:00:00.5+02:00", 500_000),
        ("1970-01-01T00:00:00.1234567891Z", 123_456),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1970-01-01t00:00:00z", 0),
        ("1972-06-30T23:59:60Z", 78_796_800_000_000),
        ("1970-01-01T00:00:00", None),
        ("yesterday", None),
        ("", None),
        (7, None),
        (None, None),
    ],
)
def test_micros_of_a_time(text: Any, value: int | None) -> None:
    assert micros(text) == value


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"id": "3', id="cut"),
        pytest.param(b"3", id="number"),
        pytest.param(b'{"id":"3"},{"id":"4"}', id="two"),
        pytest.param(b"\xff", id="no-utf-8"),
        pytest.param(b'{"deep":' + b"[" * 500_000 + b"]" * 500_000 + b"}", id="deep"),
    ],
)
def test_rows_that_are_no_events_are_left_out(wrong: bytes, caplog: pytest.LogCaptureFixture) -> None:
    rows = [(n, 0, 0, None, b'{"id":"%d"}' % n, None) for n in (1, 2, 4)]
    rows.insert(2, (3, 0, 0, None, wrong, None))
    found, attributes = decode_events(rows)
    assert [row[0] for row in found] == [1, 2, 4]
    assert attributes == [{"id": "1"}, {"id": "2"}, {"id": "4"}]
    assert [r.getMessage().partition(" can't")[0] for r in caplog.records] == ["event 3"]


@pytest.mark.parametrize(
    ("content_type", "json"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("text/json", True),
        ("application/geo+json", True),
        ("application/jsonp", False),
        ("json", False),
        ("application/octet-stream", False),
        ("", False),
        (None, False),
    ],
)
def test_which_content_types_are_json(content_type: str | None, json: bool) -> None:
    assert is_json(content_type) is json


def test_ranges_cover_every_position_once() -> None:
    assert offsets.ranges({"0": 1, "10": 5}, {"0": 11, "10": 5, "2": 3}, 4) == [
        (0, 1, 4),
        (0, 4, 7),
        (0, 7, 11),
        (2, 0, 3),
    ]


def test_a_limit_is_shared_and_always_gets_on() -> None:
    first, end = {"0": 1, "1": 1}, {"0": 1001, "1": 4}
    at = {"0": 1, "1": 1}
    for _ in range(200):
        new = offsets.advance(at, first, end, 10)
        assert sum(new.values()) - sum(at.values()) == min(10, sum(end.values()) - sum(at.values()))
        at = new
    assert at == end
    assert offsets.advance({"0": 1}, {"0": 901}, {"0": 1001}, 10) == {"0": 911}, "what is deleted is no work"


@pytest.mark.parametrize("text", ["{", "[]", '{"0": -1}', '{"a": 1}', '{"0": "1"}', '{"0": true}'])
def test_offsets_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="startingOffsets"):
        offsets.parse(text, "startingOffsets")


def test_an_artifact_has_three_parts() -> None:
    assert str(Artifact.parse("io.delta:delta-storage:4.4.0")) == "io.delta:delta-storage:4.4.0"
    with pytest.raises(ValueError, match="organisation:name:revision"):
        Artifact.parse("io.delta:delta-storage")


HOLDER = """
import subprocess, sys
from pathlib import Path
from gateway_spark.processes import Lock
lock = Lock(Path(sys.argv[1])); lock.acquire()
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[lock.fileno()])
lock.add_jvm(child.pid)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Any:
    """A process that holds a lock together with a child, as a driver does with its JVM, and the child's pid."""
    run = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "made.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    assert run.stdin is not None
    child = int(run.stdout.readline())
    yield run, child
    run.kill()
    run.wait()
    run.stdin.close()
    run.stdout.close()
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.usefixtures("processes")
def test_a_lock_of_a_living_process_is_respected(tmp_path: Path, holder: Any) -> None:
    with pytest.raises(StartError, match=f"process {holder[0].pid} is writing there: it holds the lock .*made.lock"):
        Lock(tmp_path / "made.lock").acquire(0.1)
    os.kill(holder[1], 0)


@pytest.mark.usefixtures("processes")
def test_a_jvm_that_outlives_its_driver_is_ended_before_the_lock_is_taken(
    tmp_path: Path, holder: Any, wait: Callable[..., Any]
) -> None:
    run, child = holder
    run.kill()
    run.wait()
    lock = Lock(tmp_path / "made.lock")
    lock.acquire(0.3)
    assert json.loads((tmp_path / "made.lock").read_text())["driver"][0] == os.getpid()
    with pytest.raises(ProcessLookupError):
        wait(lambda: os.kill(child, 0), "the end of the orphan", 10)
    lock.release()


@pytest.mark.usefixtures("processes")
def test_a_stale_record_kills_nobody(tmp_path: Path, holder: Any) -> None:
    run, child = holder
    run.kill()
    run.wait()
    record = json.loads((tmp_path / "made.lock").read_text())
    record["jvm"][1] = "1"  # the number was given to another process since
    (tmp_path / "made.lock").write_text(json.dumps(record))
    with pytest.raises(StartError, match="is writing there"):
        Lock(tmp_path / "made.lock").acquire(0.1)
    os.kill(child, 0)


CHILD = """
import sys
print("first " + sys.stdin.readline().strip(), flush=True)
print("a last word", file=sys.stderr, flush=True)
if {polite}:
    for line in sys.stdin:
        print("then " + line.strip(), flush=True)
        break
else:
    sys.exit(4)
"""


class Seen:
    def __init__(self, needs: int) -> None:
        self.needs = needs  # exits, or any line where it is 0
        self.lines: list[str] = []
        self.exits: list[tuple[int, float, str]] = []
        self.enough = anyio.Event()

    def supervisor(self, module: str) -> Supervisor:
        made = Supervisor(
            module,
            lambda: b"job\n",
            self._line,
            lambda status, wait_s: self._exit(status, wait_s, made.last_words()),
            0.01,
            0.03,
            5,
        )
        return made

    def _line(self, line: bytes) -> None:
        self.lines.append(line.decode())
        if self.needs == 0:
            self.enough.set()

    def _exit(self, *facts: Any) -> None:
        self.exits.append(facts)
        if len(self.exits) == self.needs:
            self.enough.set()


@pytest.mark.anyio
@pytest.mark.usefixtures("processes")
async def test_a_child_that_dies_is_started_again_with_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dying_child.py").write_text(CHILD.format(polite=False))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    seen = Seen(4)
    supervisor = seen.supervisor("dying_child")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.run)
            await seen.enough.wait()
            await supervisor.stop()
    assert seen.exits[:4] == [(4, wait_s, "a last word") for wait_s in (0.01, 0.02, 0.03, 0.03)]
    assert seen.lines[0] == "first job"
    assert supervisor.pid is None


@pytest.mark.anyio
@pytest.mark.usefixtures("processes")
async def test_a_child_is_asked_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "polite_child.py").write_text(CHILD.format(polite=True))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    seen = Seen(0)
    supervisor = seen.supervisor("polite_child")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.run)
            await seen.enough.wait()
            await supervisor.stop()
    assert seen.lines == ["first job", "then stop"]
    assert seen.exits == []


@pytest.mark.anyio
@pytest.mark.usefixtures("processes")
async def test_output_that_never_ends_its_line_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loud_child.py").write_text(
        "import sys\nsys.stderr.write('x' * 3_000_000)\n" + CHILD.format(polite=False)
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    seen = Seen(1)
    supervisor = seen.supervisor("loud_child")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.run)
            await seen.enough.wait()
            await supervisor.stop()
    assert seen.exits[0][0] == 4


@pytest.mark.parametrize(
    ("table", "format", "lock"),
    [
        ("/data/tables/flights", "parquet", "/data/tables/flights/_tidegate.lock"),
        ("/data/tables/flights", "delta", "/data/tables/flights.lock"),  # Delta wants its folder empty
        ("/data/tables/{type}", "parquet", "/data/tables/{type}.lock"),
        ("/data/tables/of_{type}/rows", "delta", "/data/tables/of_{type}_rows.lock"),
    ],
)
def test_the_lock_of_a_table_hinders_nobody(table: str, format: str, lock: str) -> None:
    assert lock_of(Path(table), format) == Path(lock)


def test_iceberg_is_refused_where_spark_has_no_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectors, "line", lambda: "4.2")
    remedy = r"Iceberg has no connector for Spark 4\.2 yet; use PySpark 4\.1 \(pip install 'pyspark==4\.1\.\*'\) or"
    with pytest.raises(ValidationError, match=remedy):
        SparkSinkConfig(path="t", format="iceberg")
    with pytest.raises(SparkFault, match=remedy):
        artifacts_of(Job({}, "t", "c", "h", format="iceberg"))
    own = {"iceberg": ["org.apache.iceberg:iceberg-spark-runtime-4.2_2.13:9"]}
    assert SparkSinkConfig(path="t", format="iceberg", packages=own).format == "iceberg"
    monkeypatch.setattr(connectors, "line", lambda: "4.1")
    lake = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
    assert SparkSinkConfig(path="lake.db.flights", format="iceberg", conf=lake).format == "iceberg"
    with pytest.raises(ValidationError, match="use a folder"):
        SparkSinkConfig(path="lake.db.{type}", format="iceberg", conf=lake)
    found = artifacts_of(Job({}, "t", "c", "h", format="iceberg"))
    assert list(found) == ["iceberg"]
    assert {a.name for a in found["iceberg"]} == {"iceberg-spark-runtime-4.1_2.13"}
    remedy = r"use PySpark 4\.2 .* the channel log"
    with pytest.raises(SparkFault, match=rf"Kafka has no connector for Spark 4\.1 yet; {remedy}"):
        artifacts_of(Job({}, "t", "c", "h", channel="kafka"))


def test_places_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = {"spark.sql.catalog.lake": "x"}
    assert location_of("lake.db.t", "iceberg", lake) == "catalog://lake.db.t"
    assert location_of("lake.db.t", "iceberg", {}) == str(tmp_path / "lake.db.t")
    assert location_of("lake.db.t", "delta", lake) == str(tmp_path / "lake.db.t")
    assert location_of("lake.db/t", "iceberg", lake) == str(tmp_path / "lake.db/t")
    assert location_of("s3a://lake.db.t", "iceberg", lake) == "s3a://lake.db.t"


def test_a_table_of_another_query_is_refused() -> None:
    mine = Owner("3", "t", "log", "/c", before=("2",))
    for found in (None, Owner("3"), Owner("2")):
        mine.check(found, "/table")
    with pytest.raises(SparkFault, match="the table /table belongs to the query 1 of trigger u"):
        mine.check(Owner("1", "u"), "/table")
