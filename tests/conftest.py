"""Fixtures that every test may use."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.spec_report", "tests.kafka_broker"]


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"
