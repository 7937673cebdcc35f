"""What a gateway does and says after `kill -9`, until Kafka ends the session of the one that is gone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.command_line import tidegate
from tests.kafka_broker import CLIENTS, channel_config

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(240)]
SESSION_S = 18


def send(url: str, id: str) -> None:
    headers = {"ce-id": id, "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
    assert web.post(url, headers=headers, content=b"1", timeout=60).is_success


def lag_metrics(gateway: GatewayProcess) -> list[str]:
    lines = gateway.admin("/metrics").text.splitlines()
    return [line for line in lines if line.startswith(("tidegate_trigger_lag_events{", "tidegate_source_lag_events{"))]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.spec("SAFE-233", "SAFE-234")
def test_it_takes_events_at_once_and_says_what_they_wait_for(tmp_path: Path, kafka: KafkaBroker, client: str) -> None:
    with Subscriber() as subscriber:
        head = channel_config(kafka, client).replace("session_timeout_s: 6", f"session_timeout_s: {SESSION_S}")
        topic = head.split("topic: ")[1].split(",")[0]
        source = f'{{kafka: {{bootstrap: "{kafka.bootstrap}", topic: {topic}, group: b-{topic}, client: {client},'
        source += f" session_timeout_s: {SESSION_S}, start: earliest}}}}"
        bridge = f'bridges:\n  out: {{source: {source}, sink: "{subscriber.url}b"}}\n'
        config = f'{head}  all: {{subscriber: "{subscriber.url}t"}}\n{bridge}'
        seen = lambda id: {r.path for r in subscriber.requests if r.headers["ce-id"] == id}  # noqa: E731
        with GatewayProcess(config, tmp_path) as gateway:
            send(gateway.ingress(), "1")
            gateway.wait_until(lambda: seen("1") == {"/t", "/b"}, 60, "the first event")
            gateway.wait_until(lambda: gateway.drained("all"), 60, "the commits")
            time.sleep(1.5)  # `commit_interval_s`: the offsets of the session that ends are there
            gateway.kill()
            killed = time.monotonic()
            gateway.start()
            send(gateway.ingress(), "2")
            opened = time.monotonic() - killed
            assert seen("2") == set(), f"the machine was too slow: it opened after {opened:.1f} s"
            assert gateway.trigger("all")["lag"] is None
            gateway.wait_until(lambda: not gateway.trigger("all")["ready"], 60, "the reason")
            if not seen("2"):  # else the session has just ended
                trigger, (bridged,) = gateway.trigger("all"), gateway.status()["bridges"]
                assert "waits for its consumer group" in trigger["reason"]
                assert f"up to {SESSION_S} s" in trigger["reason"]
                assert (trigger["condition"], trigger["lag"]) == ("FeedFails", None)
                assert bridged["reason"] == bridged["sources"][0]["error"]
                assert "waits for its consumer group" in bridged["reason"]
                assert (bridged["ready"], bridged["sources"][0]["lag"]) == (False, None)
                assert lag_metrics(gateway) == []
                assert gateway.admin("/health/ready").status_code == 503
                got = json.loads(tidegate("get", "triggers", "--data-dir", gateway.data_dir, "--json").stdout)
                assert "waits for its consumer group" in json.dumps(got)
            gateway.wait_until(lambda: seen("2") == {"/t", "/b"}, 90, "the second event")
            gateway.wait_until(lambda: gateway.trigger("all")["ready"], 60, "readiness")
            gateway.wait_until(lambda: gateway.drained("all"), 60, "lag 0")
            assert len(lag_metrics(gateway)) == 2
            gateway.wait_until(lambda: gateway.admin("/health/ready").status_code == 200, 60, "health")
