"""The text of the metrics: its format, and the rules for names."""

from __future__ import annotations

import json
import platform
from typing import Any

import pytest
from gateway_admin.metric_table import METRICS, PARTS
from gateway_admin.metrics import render
from gateway_workers.status import merge

from gateway_core import __version__
from gateway_core.contract.status import BOUNDS_S, ONE_OF, GatewayStatus
from gateway_core.pipeline.metering import Histogram, Pace
from tests.metrics.scrape import faults, parsed

NASTY = 'a "b" \\c\nd'


def histogram(*seconds: float) -> dict[str, Any]:
    made = Histogram()
    for s in seconds:
        made.observe(s)
    return made.status().document()


def document(name: str = "x") -> dict[str, Any]:
    """A status document with one of everything."""
    counts: dict[str, Any] = dict.fromkeys(
        ("delivered", "attempts", "retried", "in_flight", "waiting", "lag", "refused", "failed"), 3
    )
    counts |= {"filter_errors": 2, "unreadable": {"invalid": 1, "too_large": 2}}
    letters = {"delivery": 1, "decode": 2, "encode": 0}
    ways = {
        "dead_lettered_by_stage": letters,
        "attempt": histogram(0.002),
        "delivery": histogram(0.5, 1.0),
        "paused": False,
        "blocked": False,
    }
    source = {"address": "kafka://h/t", "error": None, "lag": 4}
    groups = {"g": {"lag": 1, "error": "away"}}
    channel = {"writable": True, "groups": groups, "events": 1, "bytes": 2, "waiting_bytes": 0, "failed": 0}
    channel["quarantined"] = 1
    accepts = {"accepted": 5, "refused": 1, "unrouted": 0, "failed": 0, "accept": histogram(0.0005, 4000.0)}
    broker = {
        "name": name,
        "ready": True,
        "channel": channel,
        "sources": [source, source],
        "dead_lettered_by_stage": letters,
        "keys": 3,
        "deduplicate_window_s": 60.0,
        **accepts,
    }
    ways |= {"delayed_until": "2026-11-28T10:00:00Z", "delayed_late_s": 0.0}
    trigger = {"name": "t", "broker": name, "ready": False, "reader": None, "replayed": letters, **counts, **ways}
    state: dict[str, Any] = {"state": "running", "error": None, "rows": 7, "quarantined": 1, "restarts": 0}
    state |= {
        "batch_s": 0.25,
        "lag": 9,
        "lags": {"0": 9},
        "stalled_s": 2.5,
        "parts": {"addBatch": 0.2},
        "rows_per_s": 28.0,
        "state_rows": 0,
    }
    reading = {"name": "r", "broker": name, "ready": True, "reader": state, "paused": False, "blocked": False, **counts}
    bridge = {"name": "b", "ready": True, "sources": [source], "accepted": 1, "unwanted": 0, **counts, **ways}
    names = ("cpu_s", "resident_bytes", "virtual_bytes", "open_fds", "max_fds", "started_s")
    listeners = ("connections", "connections_cut", "unfinished_bytes", "unfinished_refused", "values_left_out")
    process = {**dict.fromkeys((*names, *listeners), 2), "cpu_s": 1.5}
    whole = {
        "version": __version__,
        "ready": True,
        "config": {"generation": 2, "error": None},
        "brokers": [broker],
        "replays": [{"name": "events", "active": 1, "failed": 2}],
        "triggers": [trigger, reading],
        "bridges": [bridge],
        "observers": [{"name": "o", "errors": 1, "last_error": "ValueError"}],
        "processes": [{"worker": 0, **process}],
    }
    copied: dict[str, Any] = json.loads(json.dumps(whole))  # as from another worker, and nothing is there twice
    return copied


def rendered(document: dict[str, Any]) -> str:
    return render(GatewayStatus.read(document))


def test_the_text_has_no_faults() -> None:
    text = rendered(document(NASTY))
    assert list(faults(text)) == []
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert families == {metric.name for metric in METRICS}


def test_the_check_finds_faults() -> None:
    bad = "# HELP a_total x\n# TYPE a_total gauge\na_total 1\na_total 1\n# HELP b_ms x\n# TYPE b_ms gauge\nc 1\nnothing"
    assert len(list(faults(bad))) == 6


def test_values_of_labels_come_back_as_they_were() -> None:
    assert parsed(rendered(document(NASTY)))("tidegate_broker_events_accepted_total", broker=NASTY) == 5


def test_what_there_is_none_of_has_no_lines() -> None:
    empty = {**document(), "brokers": [], "triggers": [], "bridges": []}
    text = rendered(empty)
    assert list(faults(text)) == []
    assert "tidegate_trigger" not in text
    found = parsed(text)
    assert found("tidegate_build_info", version=__version__, python=platform.python_version()) == 1


def test_buckets_are_cumulative_and_their_bounds_included() -> None:
    found = parsed(rendered(document()))
    name = "tidegate_broker_accept_duration_seconds"
    assert [found(f"{name}_bucket", le=str(bound)) for bound in BOUNDS_S] == [1.0] * len(BOUNDS_S)
    assert found(f"{name}_bucket", le="+Inf") == found(f"{name}_count") == 2
    assert found(f"{name}_sum") == 4000.0005


def test_two_sources_of_one_address_are_one_series() -> None:
    assert parsed(rendered(document()))("tidegate_source_lag_events", broker="x", source="kafka://h/t") == 8


def test_numbers_of_workers_are_added() -> None:
    second = document()
    second["processes"][0]["worker"] = 1
    second["ready"] = second["brokers"][0]["channel"]["writable"] = False
    del second["triggers"][1]  # a reader runs in the first worker only
    text = render(merge(GatewayStatus.read(document()), [GatewayStatus.read(second)]))
    assert list(faults(text)) == []
    found = parsed(text)
    assert found("tidegate_broker_events_accepted_total") == 10
    assert found("tidegate_trigger_events_dead_lettered_total", stage="decode") == 4
    assert found("tidegate_trigger_delivery_duration_seconds_count") == 4
    assert found("tidegate_trigger_delivery_duration_seconds_sum") == 3
    assert found("tidegate_bridge_attempt_duration_seconds_bucket", le="0.0025") == 2
    assert (found("tidegate_ready"), found("tidegate_channel_writable"), found("tidegate_workers")) == (0, 0, 2)
    assert found("process_cpu_seconds_total", worker="1") == 1.5
    assert found("tidegate_reader_rows_total") == 7


def test_a_reader_is_shown_by_partition_and_by_parts_of_its_batches() -> None:
    status = document()
    reader = status["triggers"][1]["reader"]
    reader.update(lags={"0": 3, "1": 6}, error="no Java")
    found = parsed(rendered(status))
    assert found("tidegate_reader_partition_lag_events", trigger="r", partition="1") == 6
    assert found("tidegate_reader_batch_part_seconds", part="addBatch") == 0.2
    assert (found("tidegate_reader_running"), found("tidegate_reader_failing")) == (1, 1)
    reader["state"] = "submitted"
    assert not parsed(rendered(status)).has("tidegate_reader_running"), "whether it runs, others know"


def test_the_table_names_each_metric_once_with_few_labels() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert {metric.part.about for metric in METRICS} == {part.about for part in PARTS}
    assert all(len(metric.labels) <= 3 for metric in METRICS)
    assert all(name.startswith(("tidegate_", "process_")) for name in names)


@pytest.mark.parametrize(("per_s", "of_each"), [(50, 1), (100_000, ONE_OF)])
def test_where_many_come_one_of_some_is_timed(per_s: int, of_each: int) -> None:
    pace, now, timed, left = Pace(), 1000.0, 0, 1
    for _ in range(8000):
        now += 1 / per_s
        left -= 1
        if not left:
            timed, left = timed + 1, pace.step(now)
    assert timed == pytest.approx(8000 / of_each, abs=2)
