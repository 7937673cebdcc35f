"""What the sink `spark` reports about its query, without Spark: counts over restarts, lags, errors, stalls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway_spark.checkpoint import committed
from gateway_spark.query_run import facts, offsets
from gateway_spark.query_status import STALLED_AFTER_S, QueryStatus
from gateway_testing import FakeClock


def batch(number: int = 0, rows: int = 0, ends: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    parts = {"parts": {"addBatch": 0.2}, "batch_s": 0.25, "rows_per_s": 4.0 * rows}
    counts = {"late": 0, "state_rows": 0, "quarantined": 0}
    return {"batch": number, "rows": rows, "ends": ends or {}, **parts, **counts, **more}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000)


@pytest.fixture
def seen(clock: FakeClock) -> QueryStatus:
    found = QueryStatus(clock)
    found.begin({"0": 1}, 1)
    found.run("http://127.0.0.1:4040")
    return found


def test_lag_is_told_by_shard(seen: QueryStatus) -> None:
    assert seen.follow({"0": 5})
    assert not seen.follow({"0": 5}), "no news"
    status = seen.snapshot({"0": 9, "1": 4}, 7)
    assert (status["lag"], status["lags"], status["offsets"]) == (7, {"0": 4, "1": 3}, {"0": 5})
    assert (status["pid"], status["ui"], status["state"]) == (7, "http://127.0.0.1:4040", "running")
    assert seen.snapshot(None, None)["lag"] is None, "where the channel can't be asked"


def test_counts_go_on_over_restarts(seen: QueryStatus) -> None:
    seen.progress(batch(0, 3, quarantined=1), False)
    seen.progress(batch(1, 4, quarantined=3, state_rows=9), False)
    seen.restart("Spark's JVM was killed by signal 9")
    assert seen.snapshot({}, None)["ui"] is None
    seen.progress(batch(2, 5, quarantined=2, state_rows=8), False)
    seen.progress(batch(3), True)
    status = seen.snapshot({}, None)
    assert {k: status[k] for k in ("rows", "quarantined", "restarts", "state_rows", "batch")} == {
        "rows": 12,
        "quarantined": 5,
        "restarts": 1,
        "state_rows": 0,
        "batch": 3,
    }
    assert (status["rows_per_s"], status["batch_s"], status["parts"]) == (20.0, 0.25, {"addBatch": 0.2})


def test_the_last_error_stays_after_recovery(seen: QueryStatus) -> None:
    seen.fail("no Java")
    seen.restart("no Java")
    status = seen.snapshot({}, None)
    assert (status["state"], status["error"]) == ("restarting", "no Java")
    seen.run(None)
    seen.progress(batch(0, 1), False)
    status = seen.snapshot({}, None)
    assert (status["state"], status["error"]) == ("running", None)
    assert status["last_error"] == {"at": "2023-11-14T22:13:20Z", "error": "no Java"}


def test_a_stall_is_seen(seen: QueryStatus, clock: FakeClock) -> None:
    clock.advance(STALLED_AFTER_S * 10)
    assert seen.snapshot({"0": 1}, None)["stalled_s"] == 0, "nothing waits"
    clock.advance(STALLED_AFTER_S)
    seen.progress(batch(), True)  # nothing waited at that time
    clock.advance(STALLED_AFTER_S / 2)
    status = seen.snapshot({"0": 4}, None)
    assert (status["stalled_s"], status["state"]) == (STALLED_AFTER_S / 2, "running")
    clock.advance(STALLED_AFTER_S)
    status = seen.snapshot({"0": 4}, None)
    assert (status["state"], status["error"]) == ("stalled", "3 events wait, and no batch has ended for 180 s")
    seen.follow({"0": 2})
    assert seen.snapshot({"0": 4}, None)["state"] == "running"


def test_a_start_that_takes_long_is_no_stall(clock: FakeClock) -> None:
    found = QueryStatus(clock)
    found.begin({"0": 1}, 1)
    clock.advance(STALLED_AFTER_S + 1)
    found.run(None)
    status = found.snapshot({"0": 4}, None)
    assert (status["state"], status["error"], status["stalled_s"]) == ("running", None, STALLED_AFTER_S + 1)
    clock.advance(STALLED_AFTER_S + 1)
    assert found.snapshot({"0": 4}, None)["state"] == "stalled"


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        ('{"0": 7, "1": 2}', {"0": 7, "1": 2}),
        ({"0": 7}, {"0": 7}),
        ('{"topic": {"0": 7, "1": 2}}', {"0": 7, "1": 2}),
        ("null", {}),
        (None, {}),
    ],
)
def test_offsets_of_both_paths(found: Any, meant: dict[str, int]) -> None:
    assert offsets(found) == meant


def test_the_facts_of_a_batch() -> None:
    progress = {
        "batchId": 4,
        "numInputRows": 10,
        "processedRowsPerSecond": 40.04,
        "batchDuration": 250,
        "durationMs": {"addBatch": 200, "walCommit": 50},
        "sources": [{"numInputRows": 10, "endOffset": {"0": 11}, "latestOffset": {"0": 15}}],
        "stateOperators": [{"numRowsTotal": 30, "numRowsDroppedByWatermark": 2}],
    }
    assert facts(progress) == {
        "batch": 4,
        "rows": 10,
        "rows_per_s": 40.0,
        "batch_s": 0.25,
        "parts": {"addBatch": 0.2, "walCommit": 0.05},
        "ends": {"0": 11},
        "latest": {"0": 15},
        "state_rows": 30,
        "late": 2,
    }


def test_a_checkpoint_says_how_far_its_query_is(tmp_path: Path) -> None:
    assert committed(tmp_path) is None
    for folder in ("commits", "offsets"):
        (tmp_path / folder).mkdir()
    assert committed(tmp_path) is None
    for number in (9, 10, 11):
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps({'t': {'0': number * 100}})}")
    for number in (9, 10):
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
        (tmp_path / "commits" / f".{number}.crc").touch()
    assert committed(tmp_path) == {"0": 1000}, "the batch after it is not committed"
    (tmp_path / "offsets" / "10").unlink()
    assert committed(tmp_path) is None
