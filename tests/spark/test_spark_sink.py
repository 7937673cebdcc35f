"""The sink `spark`: a supervised query that has each event in its table once, whatever is killed."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.spark.conftest import QUICK

pytestmark = [pytest.mark.spec("CARD-03"), pytest.mark.timeout(600)]


@pytest.mark.area(name="spark_more")
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

    runner.stop()  # politely: nothing of it is left behind, and the next start resumes where this one was
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


def family(pid: int) -> Iterator[int]:
    """The processes that descend from this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    line = {pid}
    while more := {child for child, parent in parents.items() if parent in line} - line:
        line |= more
        yield from more


@pytest.mark.spec("SAFE-88")
def test_no_secret_is_on_a_command_line_or_in_an_environment(
    log: Any, sink: Callable[..., Any], event: Callable[..., Any], tmp_path: Path
) -> None:
    """Looks at all processes below the gateway all the time, from the start of the driver to a batch in the table."""
    log.append(event("a", b"{}", json_data=True))
    option = "spark.driver.extraJavaOptions"
    secrets = {
        "spark.hadoop.fs.s3a.secret.key": "planted-one",
        "spark.hadoop.fs.azure.account.oauth2.client.secret": 'planted-two "quoted" \\ key',
        option: f"{QUICK[option]} -Dmade.password=planted-three",
    }
    runner = sink({"conf": {**QUICK, **secrets}}, options={"filters": [{"cesql": "'planted-five' <> id"}]})
    seen: dict[str, str] = {}

    def look(state: dict[str, Any]) -> bool:
        for pid in family(runner._process.pid):
            for what in ("cmdline", "environ"):
                with suppress(OSError):
                    text = Path(f"/proc/{pid}/{what}").read_text(errors="replace")
                    seen[text] = what
        return state["state"] == "running" and state["lag"] == 0

    runner.wait_for("no lag", look)
    assert {text.split("\0")[0].rpartition("/")[2] for text in seen if seen[text] == "cmdline"} >= {"java", "bash"}
    assert not [text for text in seen if "planted" in text]
    api = runner.state()["ui"] + "/api/v1/applications"
    with urllib.request.urlopen(api, timeout=60) as page:
        (application,) = json.load(page)
    with urllib.request.urlopen(f"{api}/{application['id']}/environment", timeout=60) as page:
        shown = page.read().decode()
    assert "spark.hadoop.fs.s3a.secret.key" in shown, "the settings have reached Spark"
    assert "made.password" in shown, "and the options its JVM"
    assert "planted" not in shown
    assert not [*(tmp_path / "data/spark/made/scratch").glob("*.conf")], "the file is gone once it was read"


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
