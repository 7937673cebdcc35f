"""Fixtures that every test may use."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.spec_report", "tests.kafka_broker"]


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def spark_classes(request: pytest.FixtureRequest) -> None:
    """Spark starts in many tests; with the archive of its classes each time takes half as long. Once per machine."""
    if any(item.get_closest_marker("spark") for item in request.session.items):
        from gateway_java import java
        from gateway_spark import class_archive

        class_archive.make(java.find())
