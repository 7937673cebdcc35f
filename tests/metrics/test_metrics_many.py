"""The metrics of a gateway with many triggers: short, made in short slices, and right for `rate()` and `increase()`."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from gateway_admin.metric_table import METRICS, TRIGGER
from gateway_admin.metrics import FEW_BOUNDS, MOST_WHOLE, Exposition
from gateway_serving import slices
from msgspec.structs import replace

from gateway_core.contract.status import BOUNDS_S, GatewayStatus, TriggerStatus
from gateway_core.pipeline.metering import Histogram
from tests.metrics.scrape import Scrape, faults, parsed

DELIVERED = "tidegate_trigger_events_delivered_total"
DURATION = "tidegate_trigger_attempt_duration_seconds"
MANY = 2 * MOST_WHOLE
"""More than have all series at once."""


def idle(number: int) -> TriggerStatus:
    durations = Histogram().status()
    return TriggerStatus(
        name=f"orders-to-the-billing-service-{number}",
        broker="default",
        lag=0,
        attempt=durations,
        delivery=durations,
        dead_lettered_by_stage=dict.fromkeys(("delivery", "decode", "encode", "filter", "order"), 0),
    )


def busy(number: int, delivered: int) -> TriggerStatus:
    timed = Histogram()
    timed.observe(0.003)
    return replace(idle(number), delivered=delivered, attempts=delivered, attempt=timed.status())


def status(count: int, *others: TriggerStatus) -> GatewayStatus:
    return GatewayStatus("1", triggers=[*others, *map(idle, range(len(others), count))])


def text(exposition: Exposition, found: GatewayStatus, reader: str = "prometheus") -> str:
    made = b"".join(exposition.pieces(found, reader)).decode()
    assert list(faults(made)) == []
    return made


def first(scrape: Scrape) -> float:
    return scrape(DELIVERED, trigger=idle(0).name)


@pytest.mark.slow
def test_many_idle_triggers_have_one_series_each_and_every_metric_its_help() -> None:
    count = 10_000
    made = text(Exposition(), status(count))
    assert len(made) < 2_000_000
    assert parsed(made)("tidegate_trigger_ready") == count
    named = {line.split()[2] for line in made.splitlines() if line.startswith("# TYPE")}
    assert {metric.name for metric in METRICS if metric.part is TRIGGER} <= named


@pytest.mark.slow
def test_few_triggers_have_all_series_and_buckets() -> None:
    found = parsed(text(Exposition(), status(MOST_WHOLE)))
    assert found(DELIVERED) == 0
    assert all(found(f"{DURATION}_bucket", le=str(bound), trigger=idle(7).name) == 0 for bound in BOUNDS_S)


@pytest.mark.slow
def test_of_many_triggers_one_that_moved_has_all_series_for_good() -> None:
    exposition = Exposition()
    found = parsed(text(exposition, status(MANY, busy(0, 3))))
    assert (first(found), found(f"{DURATION}_count")) == (3, 1), "to a reader that is new"
    assert found("tidegate_trigger_lag_events") == 0
    assert {float(dict(labels)["le"]) for name, labels, _ in found.samples if name == f"{DURATION}_bucket"} == {
        *FEW_BOUNDS,
        float("inf"),
    }
    assert first(parsed(text(exposition, status(MANY)))) == 0, "restarted by a reload, and idle since"


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", [{"ready": False}, {"lag": 4}, {"paused": True}, {"dead_lettered_by_stage": {"x": 1}}]
)
def test_a_trigger_with_which_something_is_wrong_does_not_rest(wrong: dict[str, object]) -> None:
    found = parsed(text(Exposition(), status(MANY, replace(idle(0), **wrong))))
    assert first(found) == 0
    assert len([1 for name, _, _ in found.samples if name == DELIVERED]) == 1


@pytest.mark.slow
def test_a_series_begins_at_zero_for_each_reader_that_was_there_before() -> None:
    exposition = Exposition()
    for reader in ("one", "two"):
        assert not parsed(text(exposition, status(MANY), reader)).has(DELIVERED)
    moved = status(MANY, busy(0, 3))
    seen: dict[str, list[float]] = {"one": [], "two": [], "new": []}
    for reader in ("one", "one", "new", "two", "new", "two"):
        found = parsed(text(exposition, moved, reader))
        seen[reader].append(first(found))
        assert found("tidegate_trigger_ready", trigger=idle(0).name) == 1
        assert (found(f"{DURATION}_count"), found(f"{DURATION}_sum") > 0) == ((1, True) if first(found) else (0, False))
    assert seen == {"one": [0, 3], "two": [0, 3], "new": [3, 3]}


@pytest.mark.slow
def test_a_reader_that_was_long_away_gets_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    exposition = Exposition()
    text(exposition, status(MANY))
    monkeypatch.setattr("gateway_admin.metrics.READER_S", 0.0)
    assert first(parsed(text(exposition, status(MANY, busy(0, 3))))) == 3


@pytest.mark.slow
def test_a_series_that_was_there_stays_when_the_triggers_become_many() -> None:
    exposition = Exposition()
    assert first(parsed(text(exposition, status(2, busy(0, 3))))) == 3
    found = parsed(text(exposition, status(MANY, busy(0, 5))))
    assert first(found) == 5, "no step back to 0, which would count as a restart"
    assert found(DELIVERED, trigger=idle(1).name) == 0


@pytest.mark.anyio
async def test_everything_else_has_its_turn_between_the_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "HOLD_S", 0.0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    count = MOST_WHOLE + 100
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        found = await slices.chunks(Exposition().pieces(status(count)))
        tasks.cancel_scope.cancel()
    assert turns > 2 * count, "at least one for each step"
    assert b"".join(found).decode() == text(Exposition(), status(count))


@pytest.mark.slow
def test_no_piece_is_long() -> None:
    moved = [busy(number, 1) for number in range(1000)]
    assert max(map(len, Exposition().pieces(status(1000, *moved)))) < 10_000
