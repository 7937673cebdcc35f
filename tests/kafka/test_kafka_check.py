"""What `tidegate check` says of Kafka's options."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import gateway_kafka_confluent.plugin
import pytest
from gateway_java.kafka import KafkaBroker
from gateway_kafka import connect
from gateway_kafka.client_config import KafkaProducerConfig
from gateway_kafka.config import KafkaSourceConfig
from gateway_kafka.source import KafkaSource

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, Component, Config
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError, Fault, StartError
from gateway_core.contract.hookspecs import hookimpl
from tests.areas import areas
from tests.command_line import tidegate
from tests.kafka_broker import TWIN_CLIENTS
from tests.ledger import free_port
from tests.tree import PLUGINS, entry_points

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


BOTH = """\
bridges:
  out:
    source:
      kafka:
        bootstrap: "127.0.0.1:9092"
        topic: orders
        client: CLIENT
    sink: {kafka: {bootstrap: "127.0.0.1:9092", topic: others}}
    dead_letter: deadletter
"""


def without(plugin: str) -> Registry:
    """The registry of all plugins but one."""
    registry = Registry()
    for name, where in entry_points().items():
        if name != plugin:
            registry.add(name, import_module(where))
    return registry


class Incomplete:
    """The plugin of the client `confluent`, without a library that it needs."""

    @hookimpl
    def gateway_clients(self) -> list[Component]:
        (client,) = gateway_kafka_confluent.plugin.gateway_clients()
        return [replace(client, requires=("no_such_library",))]


def fault_of(file: Path, registry: Registry) -> Fault:
    with pytest.raises(ConfigError) as error:
        load_all([file], registry, {})
    (fault,) = error.value.faults
    return fault


@pytest.mark.spec("CARD-05")
def test_a_client_whose_library_is_missing_is_a_fault_at_its_line(tmp_path: Path) -> None:
    """The other client does not need it."""
    file = tmp_path / "tidegate.yaml"
    registry = without("kafka_confluent")
    registry.add("kafka_confluent", Incomplete())
    file.write_text(BOTH.replace("CLIENT", "confluent"))
    fault = fault_of(file, registry)
    assert (fault.file, fault.line, fault.path) == (str(file), 7, "bridges.out.source.kafka.client")
    assert fault.message == "client `confluent` needs no_such_library, which isn't installed"
    assert fault.remedy == "install tidegate[kafka-confluent]"
    file.write_text(BOTH.replace("CLIENT", "aiokafka"))
    assert load_all([file], registry, {}).config.bridges["out"].source.options.client.name == "aiokafka"


@pytest.mark.spec("CARD-05")
@pytest.mark.parametrize(
    ("client", "remedy"), [("confluent", "installed: aiokafka"), ("aiokafk", "did you mean `aiokafka`?")]
)
def test_a_client_that_no_plugin_offers_is_a_fault_at_its_line(tmp_path: Path, client: str, remedy: str) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(BOTH.replace("CLIENT", client))
    fault = fault_of(file, without("kafka_confluent"))
    assert (fault.file, fault.line, fault.path) == (str(file), 7, "bridges.out.source.kafka.client")
    assert (fault.message, fault.remedy) == (f"unknown client `{client}`", remedy)


def test_the_client_of_another_transport_is_refused(tmp_path: Path) -> None:
    class Others:
        @hookimpl
        def gateway_clients(self) -> list[Component]:
            return [Component("other", "Reaches something else.", Config, lambda options, context: object())]

    registry = Registry.installed()
    registry.add("others", Others())
    made = BuildContext("bridges.b.sink", tmp_path, SystemClock(), registry)
    config = KafkaProducerConfig.model_validate({"client": "other"})
    with pytest.raises(StartError, match=r"bridges\.b\.sink\.client: 'other' is not a client of Kafka"):
        connect.producer(config, made)


def test_the_second_client_is_tested_when_what_it_uses_changes() -> None:
    """Its twins run if a path of their area has changed (tests/areas.toml)."""
    used = set()
    for file in PLUGINS["gateway_kafka_confluent"].glob("*.py"):
        used |= set(re.findall(r"from gateway_kafka\.(\w+) import", file.read_text()))
    folder = "plugins/transports/gateway_kafka/"
    assert {f"{folder}{name}.py" for name in used} == {p for p in areas()["kafka_second_client"] if folder in p}
    assert "gateway_kafka_confluent" in areas()["kafka_second_client"]
