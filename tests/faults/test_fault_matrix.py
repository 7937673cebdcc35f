"""Every event that the server acknowledged to its sender is delivered or dead-lettered, whatever happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.adapter import Adapter, all_adapters
from tests.faults.adapters.kafka import Kafka
from tests.faults.adapters.rabbitmq import Rabbit
from tests.faults.faults import MATRIX, STORM, Scenario, forget, play
from tests.faults.figures import PROPERTY
from tests.faults.lab import Lab
from tests.faults.ledger import Figures

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(900)]
ADAPTERS = all_adapters()
# brokers that start three times in the storm; `make test` kills Kafka's under the gateway's clients instead
MARKS = {"kafka": [pytest.mark.full], "rabbitmq": [pytest.mark.area(name="rabbitmq_faults")]}


@pytest.fixture(params=[pytest.param(n, marks=MARKS.get(n, [])) for n in sorted(ADAPTERS)])
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return ADAPTERS[request.param]()


@pytest.fixture
def record(adapter: Adapter, record_property: Callable[[str, object], None]) -> Callable[[str, Figures], None]:
    def record(scenario: str, figures: Figures) -> None:
        row = {"transport": adapter.name, "scenario": scenario, **figures.row()}
        record_property(PROPERTY, json.dumps(row))
        print(row)

    return record


@pytest.mark.spec("FAULT-01", "SAFE-78")
def test_a_storm_of_faults_loses_nothing(
    adapter: Adapter, tmp_path: Path, record: Callable[[str, Figures], None]
) -> None:
    with Lab(adapter, tmp_path) as lab:
        lab.flowing()
        for happens, rounds in STORM:
            play(lab, happens, rounds)
        record("all in one run", lab.finish())


@pytest.mark.full
@pytest.mark.spec("FAULT-01")
@pytest.mark.parametrize("scenario", MATRIX, ids=lambda scenario: scenario.name)
def test_a_fault_loses_nothing(
    adapter: Adapter, scenario: Scenario, tmp_path: Path, record: Callable[[str, Figures], None]
) -> None:
    with Lab(adapter, tmp_path, workers=scenario.workers, queue_bytes=scenario.queue_bytes) as lab:
        lab.flowing()
        play(lab, scenario.happens, scenario.rounds)
        record(scenario.name, lab.finish())


@pytest.mark.full
@pytest.mark.spec("FAULT-01", "SAFE-78")
def test_the_second_kafka_client_finds_that_its_connections_are_dead(tmp_path: Path) -> None:
    with Lab(Kafka("confluent"), tmp_path) as lab:
        lab.flowing()
        play(lab, forget, 2)
        print(lab.finish())


@pytest.mark.full
@pytest.mark.spec("SAFE-78")
def test_a_client_that_asks_for_no_sign_of_life_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: without heartbeats nobody notices that the connection is dead."""
    with Lab(Rabbit(heartbeat_s=0), tmp_path) as lab:
        lab.flowing()
        monkeypatch.setattr("tests.faults.lab.LIMIT_S", 20)
        with pytest.raises(AssertionError, match="to reconnect"):
            play(lab, forget, 1)
