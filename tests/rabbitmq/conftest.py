"""The server of the run, and what tests do with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest
import trustme
from gateway_dev import servers
from gateway_dev.rabbitmq import RabbitMq

from tests.rabbit_lab import Lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A server starts for seconds: the tests with it run in one worker."""
    for item in items:
        if "own_rabbitmq" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("rabbitmq"))


@pytest.fixture(scope="session")
def own_rabbitmq(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """A server for these tests, which kill it and look into it; each uses names of its own. `ca.pem` in its folder has
    signed its certificate."""
    folder = tmp_path_factory.mktemp("rabbitmq")
    ca = trustme.CA()
    own = ca.issue_cert("localhost")
    ca.cert_pem.write_to_path(folder / "ca.pem")
    own.private_key_pem.write_to_path(folder / "key.pem")
    own.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    tls = servers.Tls(folder / "certificate.pem", folder / "key.pem")
    with servers.rabbitmq(folder, tls=tls) as server:
        yield server


@pytest.fixture(scope="session")
def lab(own_rabbitmq: RabbitMq) -> Iterator[Lab]:
    """A client of the server."""
    lab = Lab(own_rabbitmq)
    yield lab
    lab.close()


@pytest.fixture
def name(tmp_path: Path) -> str:
    """A name for a queue or an exchange, for each test another."""
    return name_of(tmp_path)


def name_of(folder: Path) -> str:
    """The name that belongs to a test's folder."""
    return f"t-{uuid5(NAMESPACE_URL, str(folder)).hex[:12]}"
