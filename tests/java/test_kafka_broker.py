"""The Kafka broker for tests and for local use: it is there, keeps what it has, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from gateway_java.kafka import KafkaBroker
from gateway_java.kafka_config import Listener, written
from gateway_java.ports import free_ports, is_free

from gateway_core.contract.errors import StartError
from tests.kafka_secure import SecureKafka

HOLDER = """
import sys
from pathlib import Path
from gateway_java.kafka import KafkaBroker
broker = KafkaBroker(Path(sys.argv[1]))
broker.start()
print(broker.bootstrap.rpartition(":")[2], flush=True)
sys.stdin.read()
"""


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"not within {limit_s:g} s: {what}"
        time.sleep(0.05)


def test_topics_are_made_once(kafka: KafkaBroker) -> None:
    assert kafka.create_topic("made-once", 3)
    assert not kafka.create_topic("made-once", 3)
    with pytest.raises(StartError, match="can't create the topic"):
        kafka.create_topic("not a topic's name", 1)


@pytest.mark.area(name="dev")
def test_a_killed_broker_comes_back_with_its_data_at_its_address(own_kafka: Callable[..., KafkaBroker]) -> None:
    broker = own_kafka()
    address, first = broker.bootstrap, broker.pid
    assert broker.create_topic("kept")
    broker.kill()
    assert broker.pid is None
    assert is_free(int(address.rpartition(":")[2]))
    broker.start()
    assert (broker.bootstrap, broker.pid == first) == (address, False)
    assert not broker.create_topic("kept")
    broker.stop()
    again = KafkaBroker(broker.folder)
    try:
        again.start()
        assert not again.create_topic("kept")
    finally:
        again.kill()


@pytest.mark.area(name="dev")
@pytest.mark.usefixtures("own_kafka")
def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        assert not is_free(port)
        os.kill(holder.pid, signal.SIGKILL)
        wait_until(lambda: is_free(port), "the broker has gone")


@pytest.mark.area(name="dev")
@pytest.mark.usefixtures("own_kafka")
def test_one_that_can_not_start_says_why(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"port {port} of 127.0.0.1 is in use"):
            KafkaBroker(tmp_path / "taken", port=port).start()
    wrong = Listener("TLS", "SSL", properties={"ssl.keystore.type": "PEM", "ssl.keystore.key": "no key"})
    with pytest.raises(StartError, match=r"(?s)Kafka ended early \(code 1\).*certificate chain is not specified"):
        KafkaBroker(tmp_path / "wrong", listeners=[wrong]).start()


def test_ports_are_different_and_no_client_is_given_them() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert max(ports) < 32768


def test_settings_are_written_as_java_reads_them() -> None:
    assert written({"a.b": "c=d:e", "pem": "1\n2\\", "with space": " x", "text": "ü😀"}) == (
        "a.b=c=d:e\npem=1\\n2\\\\\nwith\\ space=\\ x\ntext=\\u00fc\\ud83d\\ude00\n"
    )


def refusal(address: str, **settings: Any) -> str:
    """What librdkafka says there, "" where it gets in."""
    said: list[str] = []
    options: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0}
    options["error_cb"] = lambda e: said.append(str(e))
    options |= {name if callable(value) else name.replace("_", "."): value for name, value in settings.items()}
    client = AdminClient(options)
    reached = False

    def decided() -> bool:
        nonlocal reached
        client.poll(0)
        with contextlib.suppress(KafkaException):
            reached = bool(client.list_topics(timeout=1).brokers)
        return reached or bool(said)

    wait_until(decided, "the listener lets the client in or says why not")
    return "" if reached else said[0]


@pytest.mark.area(name="dev")
def test_each_listener_lets_in_those_it_should(secure_kafka: SecureKafka) -> None:
    s = secure_kafka
    tls = {"security_protocol": "SSL", "ssl_ca_location": str(s.ca_file)}
    client = {"ssl_certificate_location": str(s.client.cert_file)}
    client |= {"ssl_key_location": str(s.client.encrypted_key_file), "ssl_key_password": s.client.key_password}
    user = {"sasl_username": s.username, "sasl_password": s.password, "ssl_ca_location": str(s.ca_file)}
    encrypted = {**user, "security_protocol": "SASL_SSL"}
    token = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "ssl_ca_location": str(s.ca_file)}
    assert not refusal(s.bootstrap)
    assert not refusal(s.tls, **tls)
    assert not refusal(s.other_host, **tls, ssl_endpoint_identification_algorithm="none")
    assert not refusal(s.mutual_tls, **tls, **client)
    assert not refusal(s.plain, **encrypted, sasl_mechanism="PLAIN")
    assert not refusal(s.scram_256, **encrypted, sasl_mechanism="SCRAM-SHA-256")
    assert not refusal(s.scram_512, **user, security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512")
    assert not refusal(s.oauth, **token, oauth_cb=lambda _: (s.token(), time.time() + 3600, s.username, {}))


@pytest.mark.area(name="dev")
def test_each_listener_keeps_others_out(secure_kafka: SecureKafka) -> None:
    s = secure_kafka
    tls = {"security_protocol": "SSL", "ssl_ca_location": str(s.ca_file)}
    stranger = {"ssl_certificate_location": str(s.other_client.cert_file)}
    stranger |= {"ssl_key_location": str(s.other_client.key_file)}
    user = {"sasl_username": s.username, "sasl_password": "wrong", "ssl_ca_location": str(s.ca_file)}
    token = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "ssl_ca_location": str(s.ca_file)}
    assert "verify failed" in refusal(s.tls, **{**tls, "ssl_ca_location": str(s.other_ca_file)})
    assert "verify failed" in refusal(s.other_host, **tls)
    assert "certificate" in refusal(s.mutual_tls, **tls)
    assert "certificate" in refusal(s.mutual_tls, **tls, **stranger)
    for address, mechanism in ((s.plain, "PLAIN"), (s.scram_256, "SCRAM-SHA-256")):
        assert "_AUTHENTICATION" in refusal(address, **user, sasl_mechanism=mechanism, security_protocol="SASL_SSL")
    scram = {"sasl_mechanism": "SCRAM-SHA-512", "security_protocol": "SASL_PLAINTEXT"}
    assert "_AUTHENTICATION" in refusal(s.scram_512, **user, **scram)
    stale = s.token(-60)
    assert "_AUTHENTICATION" in refusal(s.oauth, **token, oauth_cb=lambda _: (stale, time.time() + 3600, "ada", {}))
