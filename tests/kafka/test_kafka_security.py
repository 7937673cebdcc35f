"""TLS and SASL with both client libraries, against real listeners of a broker."""

from __future__ import annotations

import gc
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest
from gateway_kafka import connect
from gateway_kafka.client import KafkaFault, Partition, Record
from gateway_kafka.client_config import KafkaProducerConfig

from tests.kafka_broker import TWIN_CLIENTS, context
from tests.kafka_secure import SecureKafka

# twice, on busy machines, aiokafka has left a TLS connection that came to nothing to the garbage collector
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]
LIMIT_S = 60.0
clients = pytest.mark.parametrize("client", TWIN_CLIENTS)


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """What a test here leaves to the garbage collector is collected here, not in the middle of another test."""
    yield
    gc.collect()


class Values:
    """A member that keeps values."""

    def __init__(self) -> None:
        self.found: list[bytes | None] = []
        self.changed = anyio.Event()

    def assigned(self, partitions: Mapping[Partition, int], ids: Mapping[str, str]) -> None: ...

    async def revoked(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return {}

    def lost(self, partitions: Iterable[Partition]) -> None: ...

    def fetched(self, partition: Partition, records: Sequence[Record], end: int) -> None:
        self.found += [record.value for record in records]
        self.changed.set()

    def passed(self, partition: Partition, offset: int) -> None:
        pass


@asynccontextmanager
async def running(one: Any) -> AsyncIterator[Any]:
    async with anyio.create_task_group() as tasks:
        try:
            await one.start(tasks)
            yield one
            with anyio.CancelScope(shield=True), anyio.move_on_after(15):
                await one.stop()
        finally:
            tasks.cancel_scope.cancel()


def consumer(config: KafkaProducerConfig, topic: str, member: Values) -> Any:
    return connect.consumer(
        config,
        context(),
        group=f"security-{uuid.uuid4().hex}",
        topics=[topic],
        member=member,
        max_poll_records=100,
        session_timeout_s=10,
    )


def config(client: str, bootstrap: str, **options: Any) -> KafkaProducerConfig:
    return KafkaProducerConfig.model_validate(
        {"client": client, "bootstrap": bootstrap, "request_timeout_s": 10, **options}
    )


def ways(secure: SecureKafka) -> dict[str, tuple[str, dict[str, Any]]]:
    """Each listener's address, and the options for it."""
    tls = {"ca_file": secure.ca_file}
    user = {"username": secure.username, "password": secure.password}
    mine = secure.client
    key = {"cert_file": mine.cert_file, "key_file": mine.key_file}
    locked = {"cert_file": mine.cert_file, "key_file": mine.encrypted_key_file, "key_password": mine.key_password}
    return {
        "plaintext": (secure.bootstrap, {}),
        "tls": (secure.tls, {"tls": tls}),
        "another host": (secure.other_host, {"tls": {**tls, "verify_host": False}}),
        "mutual tls": (secure.mutual_tls, {"tls": {**tls, **key}}),
        "mutual tls, encrypted key": (secure.mutual_tls, {"tls": {**tls, **locked}}),
        "plain": (secure.plain, {"tls": tls, "sasl": {"mechanism": "PLAIN", **user}}),
        "scram-sha-256": (secure.scram_256, {"tls": tls, "sasl": {"mechanism": "SCRAM-SHA-256", **user}}),
        "scram-sha-512": (secure.scram_512, {"sasl": {"mechanism": "SCRAM-SHA-512", **user}}),
    }


WAYS = [
    "plaintext",
    "tls",
    "another host",
    "mutual tls",
    "mutual tls, encrypted key",
    "plain",
    "scram-sha-256",
    "scram-sha-512",
]


async def there_and_back(made: KafkaProducerConfig) -> None:
    """Writes a record and reads it again."""
    topic = f"security-{uuid.uuid4().hex}"
    faults: list[KafkaFault | None] = []
    answered = anyio.Event()

    def done(fault: KafkaFault | None) -> None:
        faults.append(fault)
        answered.set()

    async with running(connect.producer(made, context())) as producer:
        producer.send(topic, b"key", b"value", [("name", b"value")], done)
        with anyio.fail_after(LIMIT_S):
            await answered.wait()
        assert faults == [None]
        assert producer.fault is None
    member = Values()
    async with running(consumer(made, topic, member)) as reader:
        with anyio.fail_after(LIMIT_S):
            await member.changed.wait()
        assert reader.fault is None
    assert member.found == [b"value"]


@clients
@pytest.mark.parametrize("way", WAYS)
async def test_writes_and_reads_through_each_listener(secure_kafka: SecureKafka, client: str, way: str) -> None:
    bootstrap, options = ways(secure_kafka)[way]
    await there_and_back(config(client, bootstrap, **options))


def refusals(secure: SecureKafka) -> dict[str, tuple[str, dict[str, Any], str]]:
    """What is not accepted: address, options, a word that the message has."""
    good = ways(secure)
    user = {"username": secure.username, "password": "wrong"}
    tls = {"ca_file": secure.ca_file}
    stranger = {"cert_file": secure.other_client.cert_file, "key_file": secure.other_client.key_file}
    return {
        "password, plain": (secure.plain, {"tls": tls, "sasl": {"mechanism": "PLAIN", **user}}, "uthentication"),
        "password, scram": (
            secure.scram_512,
            {"sasl": {"mechanism": "SCRAM-SHA-512", **user}},
            "uthentication",
        ),
        "mechanism": (secure.scram_256, {"tls": tls, "sasl": {**good["plain"][1]["sasl"]}}, "mechanism"),
        "authority": (secure.tls, {"tls": {"ca_file": secure.other_ca_file}}, "certificate"),
        "system's authorities": (secure.tls, {"tls": {}}, "certificate"),
        "host": (secure.other_host, {"tls": tls}, "certificate"),
        "no certificate": (secure.mutual_tls, {"tls": tls}, "certificate"),
        "a stranger's certificate": (secure.mutual_tls, {"tls": {**tls, **stranger}}, ""),
        "no file": (secure.tls, {"tls": {"ca_file": Path("/nowhere/ca.pem")}}, "certificate"),
        "key's password": (
            secure.mutual_tls,
            {"tls": {**good["mutual tls, encrypted key"][1]["tls"], "key_password": "wrong"}},
            "",
        ),
    }


REFUSALS = [
    "password, plain",
    "password, scram",
    "mechanism",
    "authority",
    "system's authorities",
    "host",
    "no certificate",
    "a stranger's certificate",
    "no file",
    "key's password",
]


async def ended() -> None:
    """Waits until no client has a thread of its own any more."""
    with anyio.fail_after(LIMIT_S):
        while any(thread.name.startswith("tidegate-kafka") for thread in threading.enumerate()):  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def refused(one: Any, caplog: pytest.LogCaptureFixture) -> str:
    """Starts it, which must fail and leave nothing running; the only line about it."""
    caplog.clear()
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            with pytest.raises(KafkaFault) as raised:
                await one.start(tasks)
            tasks.cancel_scope.cancel()
    await ended()
    fault: KafkaFault = raised.value
    assert fault.credentials
    assert not fault.retry
    assert "\n" not in str(fault)
    said = [r.getMessage() for r in caplog.records if r.name == "tidegate.kafka" and r.levelno >= logging.WARNING]
    assert len(said) <= 1, said
    return str(fault)


@clients
@pytest.mark.parametrize("what", REFUSALS)
async def test_says_once_what_the_cluster_does_not_accept(
    secure_kafka: SecureKafka,
    client: str,
    what: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    bootstrap, options, word = refusals(secure_kafka)[what]
    made = config(client, bootstrap, **options)
    capfd.readouterr()
    for one in (connect.producer(made, context()), consumer(made, "nothing", Values())):
        assert word in await refused(one, caplog)
    assert "wrong" not in caplog.text.replace("wrong version", "")
    assert capfd.readouterr().err == ""


class Endpoint:
    """An OAuth 2.0 token endpoint: `asked` are the forms it got, with the Authorization header."""

    def __init__(self, secure: SecureKafka) -> None:
        self.asked: list[dict[str, str]] = []
        self.lifetime_s = 3600.0
        self.refuses = False
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                asked = {name: values[0] for name, values in form.items()}
                endpoint.asked.append(asked | {"authorization": self.headers.get("authorization", "")})
                token = secure.token(endpoint.lifetime_s)
                body = f'{{"access_token": "{token}", "token_type": "Bearer", "expires_in": 3600}}'
                if endpoint.refuses:
                    body = '{"error": "invalid_client"}'
                self.send_response(401 if endpoint.refuses else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"


@contextmanager
def serving(secure: SecureKafka) -> Iterator[Endpoint]:
    endpoint = Endpoint(secure)
    thread = threading.Thread(target=endpoint.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        thread.join()
        endpoint.server.server_close()


def oauth(secure: SecureKafka, client: str, **where: Any) -> KafkaProducerConfig:
    sasl = {"mechanism": "OAUTHBEARER", "oauth": where}
    return config(client, secure.oauth, tls={"ca_file": secure.ca_file}, sasl=sasl)


@clients
async def test_a_token_endpoint_is_asked_for_the_token(secure_kafka: SecureKafka, client: str) -> None:
    with serving(secure_kafka) as endpoint:
        where = {"token_url": endpoint.url, "client_id": "me", "client_secret": "s3cret", "scope": "kafka"}
        await there_and_back(oauth(secure_kafka, client, **where))
    assert endpoint.asked
    for asked in endpoint.asked:
        assert asked["grant_type"] == "client_credentials"
        assert asked["scope"] == "kafka"
        assert asked["authorization"] == "Basic bWU6czNjcmV0"


@clients
async def test_a_token_comes_from_a_file(secure_kafka: SecureKafka, client: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(secure_kafka.token() + "\n")
    await there_and_back(oauth(secure_kafka, client, token_file=file))


@clients
async def test_says_once_that_the_token_endpoint_refuses_us(
    secure_kafka: SecureKafka, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(secure_kafka) as endpoint:
        endpoint.refuses = True
        where = {"token_url": endpoint.url, "client_id": "me", "client_secret": "unlucky"}
        made = oauth(secure_kafka, client, **where)
        for one in (connect.producer(made, context()), consumer(made, "nothing", Values())):
            said = await _fault(one, caplog)
            assert "401" in said
            assert endpoint.url in said
            assert "unlucky" not in caplog.text


@clients
async def test_says_once_that_a_token_has_ended(
    secure_kafka: SecureKafka, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(secure_kafka) as endpoint:
        endpoint.lifetime_s = -60
        made = oauth(secure_kafka, client, token_url=endpoint.url, client_id="me", client_secret="x")
        for one in (connect.producer(made, context()), consumer(made, "nothing", Values())):
            await refused(one, caplog)


async def _fault(one: Any, caplog: pytest.LogCaptureFixture) -> str:
    """The fault of a start that fails for good; its `retry` is not looked at."""
    caplog.clear()
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            with pytest.raises(KafkaFault) as raised:
                await one.start(tasks)
            tasks.cancel_scope.cancel()
    await ended()
    assert raised.value.credentials
    said = [r.getMessage() for r in caplog.records if r.name == "tidegate.kafka" and r.levelno >= logging.WARNING]
    assert len(said) <= 1, said
    return str(raised.value)
