"""A name that one gateway leaves behind, and another one still uses."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from gateway_dev.servers import Server
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.command_line import tidegate
from tests.kafka_broker import channel_config

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(240), pytest.mark.spec("SAFE-232")]
EVENTS = 5
JETSTREAM = """
brokers:
  default:
    ingress: [http: {{listen: "127.0.0.1:0", anonymous: true}}]
    channel: {{jetstream: {{servers: "{nats}", stream: {name}, subject: {name}}}}}
triggers:
"""


def kept(head: str, folder: Path, name: str) -> None:
    with Subscriber() as subscriber:
        texts = [f'{head}  {trigger}: {{subscriber: "{subscriber.url}{trigger}"}}\n' for trigger in ("old", "new")]
        for each in ("one", "two"):
            (folder / each).mkdir()
        with GatewayProcess(texts[0], folder / "one") as one, GatewayProcess(texts[0], folder / "two") as two:
            assert one.stop() == 0
            one.config.write_text(texts[1])
            one.start()
            words = ("orphans", one.config, "--data-dir", one.data_dir)
            remove = (*words, "--remove", name, "--yes", "--drop", 1000)
            refused = tidegate(*remove)
            assert (refused.returncode, "it is in use" in refused.stdout) == (1, True), refused.stdout
            assert two.stop() == 0
            for n in range(EVENTS):
                headers = {"ce-id": f"{n}", "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
                assert web.post(one.ingress(), headers=headers, content=b"1", timeout=60).is_success
            refused = tidegate(*words, "--remove", name, "--yes")
            assert (refused.returncode, f"{EVENTS} events wait there" in refused.stdout) == (1, True), refused.stdout
            assert "may be another gateway's too" in tidegate(*words).stdout
            two.start()
            two.wait_until(lambda: [r.path for r in subscriber.requests].count("/old") == EVENTS, 60, "what waited")


def test_jetstream(tmp_path: Path, nats_server: Server) -> None:
    name = f"o-{uuid4().hex[:8]}"
    kept(JETSTREAM.format(nats=nats_server.url, name=name), tmp_path, f"{name}/tidegate_old")


@pytest.mark.full
def test_kafka(tmp_path: Path, kafka: KafkaBroker) -> None:
    head = channel_config(kafka, "aiokafka")
    prefix = head.split("group_prefix: ")[1].split(",")[0]
    kept(head, tmp_path, f"{prefix}.default.old")
