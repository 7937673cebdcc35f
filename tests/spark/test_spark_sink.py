"""The sink `spark`: a supervised query that has each event in its table once, whatever is killed."""

from __future__ import annotations

import datetime
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.spec("CARD-03"), pytest.mark.timeout(300)]


def positions(spark: Any, table: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(table)).select("shard", "position").collect()
    return sorted((r.shard, r.position) for r in rows)


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

    log.append(event("later", b'{"delay": "none"}', type="late", time="2026-01-03T00:00:00+01:00", json_data=True))
    runner.wait_for("the new event", lambda s: s["advanced"][-1:] == [{"0": 6}])
    table = spark.read.parquet(str(runner.table))
    day = datetime.date
    assert sorted((r.id, r.data and tuple(r.data), r.data_raw, r.date) for r in table.collect()) == [
        ("later", (None, None), b'{"delay": "none"}', day(2026, 1, 2)),
        ("text", None, b"plain", day(2023, 11, 14)),
        ("typed", ("LAX", 3.5), b'{"dest": "LAX", "delay": 3.5}', day(2026, 1, 2)),
    ]
    assert (runner.table / "date=2026-01-02" / "type=late").is_dir()


def test_it_stops_politely_and_goes_on_where_it_was(
    spark: Any, log: Any, sink: Callable[..., Any], event: Callable[..., Any]
) -> None:
    log.append(event("a"))
    runner = sink({"columns": ["id", "shard", "position"]})
    runner.caught_up()
    runner.stop()
    assert runner.state()["state"] != "restarting"
    assert not (runner.folder / "data/spark/made/scratch").exists()
    log.append(event("b"), event("c"))
    runner.start()
    runner.caught_up()
    assert positions(spark, runner.table) == [(0, 1), (0, 2), (0, 3)]
    assert spark.read.parquet(str(runner.table)).columns == ["id", "shard", "position"]


def test_a_fault_is_told_and_tried_again(
    log: Any, sink: Callable[..., Any], event: Callable[..., Any], tmp_path: Path
) -> None:
    log.append(event("a"))
    (tmp_path / "table" / "_spark_metadata").mkdir(parents=True)
    old = tmp_path / "table" / "_spark_metadata" / "7"
    old.write_text("v1\n")
    runner = sink({"restart_delay_s": 0.2})
    state = runner.wait_for("two restarts", lambda s: s["restarts"] >= 2)
    assert "was written with another checkpoint" in state["error"]
    assert state["lag"] == 1
    old.unlink()
    assert runner.caught_up()["error"] is None


def test_a_second_sink_may_not_write_the_same_table(
    log: Any, sink: Callable[..., Any], event: Callable[..., Any], tmp_path: Path
) -> None:
    log.append(event("a"))
    sink().caught_up()
    second = sink(path=str(tmp_path / "table"), data_dir=str(tmp_path / "other"), state=str(tmp_path / "second.json"))
    second._state = tmp_path / "second.json"
    state = second.wait_for("a fault", lambda s: s["error"])
    assert f"{tmp_path / 'table' / '_tidegate'} is being written by process" in state["error"]


class Load(threading.Thread):
    """Appends events in small commits until it is told to stop."""

    def __init__(self, log: Any, event: Callable[..., Any]) -> None:
        super().__init__()
        self._log, self._event = log, event
        self._stop = threading.Event()
        self.count = {0: 0, 1: 0}

    def run(self) -> None:
        chance = random.Random(5)
        while not self._stop.wait(0.01):
            shard, size = chance.randrange(2), chance.randrange(1, 40)
            at = self.count[shard]
            self._log.append(*(self._event(f"{shard}-{at + n}") for n in range(size)), shard=shard)
            self.count[shard] += size
        self._log.close()

    def stop(self) -> None:
        self._stop.set()
        self.join()


def run_with_kills(spark: Any, log: Any, sink: Any, event: Any, kills: list[str], seed: int) -> None:
    chance = random.Random(seed)
    load = Load(log, event)
    load.start()
    try:
        runner = sink({"trigger_interval_s": 0, "restart_delay_s": 0.1, "max_events_per_batch": 500})
        for number, part in enumerate(kills):
            # each kill falls somewhere into the batches of a query that works
            runner.wait_for("a batch", lambda s: s["state"] == "running" and s["advanced"])
            time.sleep(chance.uniform(0, 1.5))
            before = runner.state()["restarts"]
            if part == "gateway":
                runner.kill()
                runner.start()
            else:
                runner.kill_part(part)
                runner.wait_for(f"restart {number}", lambda s, n=before: s["restarts"] > n)
    finally:
        load.stop()
    runner.caught_up()
    runner.stop()
    assert positions(spark, runner.table) == [(s, p) for s in (0, 1) for p in range(1, load.count[s] + 1)]


def test_each_position_is_there_once_after_kills(
    spark: Any, log: Any, sink: Callable[..., Any], event: Callable[..., Any]
) -> None:
    run_with_kills(spark, log, sink, event, ["jvm", "driver", "gateway"], seed=1)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 5))
def test_each_position_is_there_once_after_many_kills(
    spark: Any, log: Any, sink: Callable[..., Any], event: Callable[..., Any], seed: int
) -> None:
    kills = random.Random(seed).choices(["jvm", "driver", "gateway"], k=10)
    run_with_kills(spark, log, sink, event, kills, seed)
