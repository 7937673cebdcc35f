"""The MQTT server of the tests, and one of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mqtt.mosquitto import Mosquitto


@pytest.fixture(scope="session")
def mosquitto(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """The server that the tests of one worker share. Each test takes topics and client ids of its own."""
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as server:
        yield server


@pytest.fixture
def own_mosquitto(processes: None, tmp_path: Path) -> Iterator[Mosquitto]:
    """One that the test may stop, kill and configure."""
    server = Mosquitto(tmp_path / "mosquitto")
    yield server
    server.stop()
