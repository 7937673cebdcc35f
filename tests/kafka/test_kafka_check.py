"""What `tidegate check` says of Kafka's options."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_kafka.config import KafkaSourceConfig
from gateway_kafka.source import KafkaSource

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from tests.command_line import tidegate
from tests.kafka_broker import TWIN_CLIENTS
from tests.ledger import free_port

BRIDGES = """\
bridges:
  out: {source: "kafka://127.0.0.1:9092/orders", sink: "http://127.0.0.1:8081/"}
  safe: {source: "kafka://127.0.0.1:9092/orders", sink: "http://127.0.0.1:8081/", dead_letter: deadletter}
"""


def test_a_bridge_from_kafka_without_dead_letter_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(BRIDGES)
    (warning,) = load_all([file], Registry.installed(), {}).warnings
    assert (warning.path, warning.line) == ("bridges.out", 2)
    assert warning.message.startswith("the bridge has no `dead_letter`")
    assert KafkaSourceConfig.pulls is KafkaSource.pulls is True


CLUSTER = """
secrets: {{PW: {{env: PW}}}}
brokers:
  default:
    ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]
    channel:
      kafka: {{bootstrap: "{at}", client: {client}{more}}}
    dead_letter: {{stdout: {{}}}}
"""
LOGIN = ', sasl: {mechanism: PLAIN, username: gate, password: "${secret:PW}"}'


@pytest.mark.parametrize("client", TWIN_CLIENTS)
@pytest.mark.parametrize(
    ("there", "more", "ok", "says"),
    [
        pytest.param(True, "", True, "", id="there"),
        pytest.param(True, LOGIN, False, "credentials", id="no such login"),
        pytest.param(False, "", False, "Connection refused", id="away"),
    ],
)
def test_connect_tries_the_cluster_and_shows_no_secret(
    kafka: KafkaBroker, tmp_path: Path, client: str, there: bool, more: str, ok: bool, says: str
) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(CLUSTER.format(at=kafka.bootstrap if there else "127.0.0.1:9", client=client, more=more))
    env = {"PW": "hunter2secret", "TIDEGATE_DATA_DIR": str(tmp_path / "data"), "TIDEGATE_ADMIN": "127.0.0.1:0"}
    run = tidegate("check", "--connect", "--json", file, env=env)
    (probe,) = [p for p in json.loads(run.stdout)["probes"] if p["path"] == "brokers.default.channel"]
    assert (probe["ok"], run.returncode) == (ok, 0 if ok else 1)
    assert says in probe["reason"]
    assert "hunter2secret" not in run.stdout + run.stderr


@pytest.mark.parametrize(
    ("host", "why"), [("kafka.invalid", ""), ("127.0.0.1", "no answer in time")], ids=["unknown", "silent"]
)
@pytest.mark.usefixtures("own_kafka")
@pytest.mark.spec("TR-10")
def test_connect_names_a_broker_that_can_not_be_reached_where_it_is_advertised(
    tmp_path: Path, host: str, why: str
) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        advertised = f"{host}:{silent.getsockname()[1]}"
        properties = {"advertised.listeners": f"PLAINTEXT://{advertised}"}
        broker = KafkaBroker(tmp_path / "broker", port=port, properties=properties)
        try:
            broker.start(120)
            file = tmp_path / "tidegate.yaml"
            file.write_text(CLUSTER.format(at=f"127.0.0.1:{port}", client="aiokafka", more=""))
            env = {"TIDEGATE_DATA_DIR": str(tmp_path / "data"), "TIDEGATE_ADMIN": "127.0.0.1:0"}
            run = tidegate("check", "--connect", "--json", file, env=env)
        finally:
            broker.kill()
    (probe,) = [p for p in json.loads(run.stdout)["probes"] if not p["ok"]]
    assert f"advertises its broker 1 at {advertised}, where it can't be reached ({why}" in probe["reason"]
    assert "`advertised.listeners` must name an address that works from here" in probe["reason"]
