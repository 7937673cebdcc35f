"""The servers that all tests of a run share."""

from __future__ import annotations

import pytest
from gateway_dev.servers import Server


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", ["mqtt", "nats", "rabbitmq", "redis"])
def test_they_take_connections(name: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(f"{name}_server")
    assert server.answers()
    assert server.url.endswith(f"127.0.0.1:{server.port}")
