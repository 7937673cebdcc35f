"""Fixtures that every test may use."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.spec_report", "tests.kafka_broker"]


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Spark starts in many tests; with the archive of its classes each time takes half as long. It is made once per
    machine, and here, where no test's time limit counts."""
    if not session.config.option.collectonly and any(item.get_closest_marker("spark") for item in session.items):
        from gateway_java import java
        from gateway_spark import class_archive

        class_archive.make(java.find())
