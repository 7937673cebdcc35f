"""The sink `spark`: a supervised query that has each event in its table once, whatever is killed."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytestmark = [pytest.mark.spec("CARD-03"), pytest.mark.timeout(600)]


def test_a_table_with_typed_data_and_partitions_follows_the_log(
    spark: Any, log: Any, sink: Callable[..., Any], event: Callable[..., Any]
) -> None:
    log.append(event("before", type="late"))
    log.append(
        event("typed", b'{"dest": "LAX", "delay": 3.5}', type="late", time="2026-01-02T23:00:00Z", json_data=True),
        event("other", b'{"dest": "SFO"}', type="early", time="2026-01-02T23:00:00Z", json_data=True),
        event("text", b"plain", type="late", received_ns=1_700_000_000_000_000_000),
    )
    config = {"data_schema": "dest STRING, delay DOUBLE", "partition_by": ["date", "type"]}
    runner = sink(config, start={"0": 2}, options={"filters": [{"exact": {"type": "late"}}]})
    state = runner.caught_up()
    assert state["advanced"][-1] == {"0": 5}
    assert (state["rows"], state["restarts"], state["error"]) == (2, 0, None)
    assert (state["lags"], state["stalled_s"], state["last_error"]) == ({"0": 0}, 0, None)
    assert state["parts"].keys() >= {"addBatch", "walCommit", "commitOffsets"}
    with urllib.request.urlopen(state["ui"], timeout=60) as page:
        assert b"Spark" in page.read()
    assert urlsplit(state["ui"]).hostname == "127.0.0.1", "it is for this machine alone"

    log.append(event("later", b'{"delay": null}', type="late", time="2026-01-03T00:00:00+01:00", json_data=True))
    runner.wait_for("the new event", lambda s: s["advanced"][-1:] == [{"0": 6}])
    table = spark.read.parquet(str(runner.table))
    day = datetime.date
    assert sorted((r.id, r.data and tuple(r.data), r.data_raw, r.date) for r in table.collect()) == [
        ("later", (None, None), b'{"delay": null}', day(2026, 1, 2)),
        ("typed", ("LAX", 3.5), b'{"dest": "LAX", "delay": 3.5}', day(2026, 1, 2)),
    ]
    assert (runner.table / "date=2026-01-02" / "type=late").is_dir()
    refused = spark.read.parquet(f"{runner.table}_quarantine").collect()
    assert [(r.id, bytes(r.data), r.reason) for r in refused] == [("text", b"plain", "data is not JSON")]

    runner.stop()  # politely: nothing of it is left behind, and the next start goes on where this one was
    assert not (runner.folder / "data/spark/made/scratch").exists()
    log.append(event("next", type="late", json_data=True))
    runner.start()
    assert runner.caught_up()["rows"] == 1
    table = spark.read.parquet(str(runner.table))
    assert sorted(r.id for r in table.collect()) == ["later", "next", "typed"]


def test_a_fault_is_told_and_tried_again(
    log: Any, sink: Callable[..., Any], event: Callable[..., Any], tmp_path: Path
) -> None:
    log.append(event("a"))
    (tmp_path / "table" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "table" / "_spark_metadata" / "7").write_text("v1\n")
    runner = sink({"restart_delay_s": 0.2})
    state = runner.wait_for("two restarts", lambda s: s["restarts"] >= 2)
    assert "was not written with the checkpoint" in state["error"]
    assert state["lag"] == 1


def test_a_table_that_another_process_writes_is_left_alone(
    log: Any, sink: Callable[..., Any], event: Callable[..., Any], tmp_path: Path
) -> None:
    from gateway_spark.processes import Lock

    log.append(event("a"))
    other = Lock(tmp_path / "table" / "_tidegate.lock")
    other.acquire()
    runner = sink()
    state = runner.wait_for("a fault", lambda s: s["error"])
    assert state["error"] == f"process {os.getpid()} is writing there: it holds the lock {other.path}"
    assert sorted(p.name for p in runner.table.iterdir()) == ["_tidegate.lock"]
    other.release()


@pytest.mark.usefixtures("log")
def test_a_jvm_that_does_not_start_says_why(sink: Callable[..., Any]) -> None:
    runner = sink({"driver_memory": "900000g"})
    state = runner.wait_for("a restart", lambda s: s["restarts"])
    assert state["error"].startswith("Spark's JVM did not start: ")
    assert "heap" in state["error"], "the line of the JVM that says why"


@pytest.mark.full
def test_a_delta_table_follows_the_log(log: Any, sink: Callable[..., Any], event: Callable[..., Any]) -> None:
    log.append(event("a"), event("b", type="late"))
    runner = sink({"format": "delta", "partition_by": ["type"]})
    runner.caught_up()
    log.append(event("c"))
    runner.wait_for("the new event", lambda s: s["advanced"][-1:] == [{"0": 4}])
    runner.stop()
    # read where Delta's jars are: not in the session that all tests share
    code = f"""if True:
        from gateway_spark import session
        spark = session("local[1]", delta=True)
        table = spark.read.format("delta").load({str(runner.table)!r})
        print(sorted(tuple(r) for r in table.select("id", "type").collect()))
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert ran.stdout == "[('a', 'made'), ('b', 'late'), ('c', 'made')]\n", ran.stderr
