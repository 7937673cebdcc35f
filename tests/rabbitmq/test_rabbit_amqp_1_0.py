"""Through RabbitMQ's plugin for AMQP 1.0, the Go SDK and the gateway exchange events in structured mode.

In binary mode they don't, with RabbitMQ 3.10: the plugin leaves the application properties encoded in one header.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_dev.rabbitmq import RabbitMq
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import attempt, running

from tests.rabbit_lab import Lab, numbered
from tests.rabbitmq.test_rabbit_faults import reading, thread
from tests.sdk.environments import go_sdk

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.usefixtures("processes"), pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def built() -> None:
    """A test without the SDK is missing; raised in a task group that would not be seen."""
    go_sdk()


ATTRIBUTES = {"id": "a", "source": "/go", "type": "t", "subject": "x y", "datacontenttype": "application/json"}


class WithAmqp10(RabbitMq):
    """A server with the plugin."""

    def write_settings(self) -> None:
        super().write_settings()
        self._written("enabled_plugins", "[rabbitmq_amqp1_0].\n")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with WithAmqp10(tmp_path / "server") as server:
        lab = Lab(server)
        lab.queue("in")
        lab.queue("out")
        yield lab
        lab.close()


def go(lab: Lab, *arguments: str, given: str = "") -> str:
    """What the Go SDK's program prints."""
    verb, address, last = arguments
    url = lab.url.replace("//", "//guest:guest@")
    queues = "/amq/queue" if lab.server.version.startswith("3.") else "/queues"
    command = [str(go_sdk()), verb, "amqp", url, f"{queues}/{address}", last]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.spec("RQ-03")
async def test_structured_events_cross(lab: Lab, tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    server = {"server": f"127.0.0.1:{lab.server.port}"}
    event = json.dumps([{"attributes": ATTRIBUTES, "data": {"n": 1}}])
    async with reading(kit.source("rabbitmq", {**server, "queue": "in"})) as intake:
        await thread(lambda: go(lab, "send", "in", "structured", given=event))
        await until(lambda: len(intake.events) == 1, "the Go SDK's event")
    assert {n: str(v) for n, v in intake.events[0].attributes.items()} == {"specversion": "1.0", **ATTRIBUTES}
    codec = {"cloudevents": {"mode": "structured"}}
    async with running(kit.sink("rabbitmq", {**server, "queue": "out", "codec": codec})) as sink:
        assert (await attempt(sink, numbered(1))).delivered
    said = await thread(lambda: go(lab, "receive", "out", "1"))
    (found,) = json.loads(said)["result"]
    assert found["attributes"]["id"] == "n1"
