"""Users, passwords and certificates of an MQTT server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from gateway_dev import servers
from gateway_dev.servers import Server, Tls
from gateway_mqtt.config import MqttSinkConfig
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import attempt, numbered, running

from gateway_core.contract.errors import StartError
from tests.mqtt.sources import build


@pytest.fixture(scope="module")
def guarded(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server that wants a user, and over TLS a certificate, too; and the folder of the certificates."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name, certificate in (("server", authority.issue_cert("localhost")), ("client", authority.issue_cert("me"))):
        certificate.private_key_pem.write_to_path(folder / f"{name}.key")
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(folder / f"{name}.pem", append=True)
    tls = Tls(folder / "server.pem", folder / "server.key", folder / "ca.pem")
    with servers.mqtt(folder / "mqtt", users={"ann": "s3cret-word"}, tls=tls) as server:
        yield server, folder


def plain(of: Server, **more: Any) -> dict[str, Any]:
    return {"server": f"127.0.0.1:{of.port}", "topic": "t", "username": "ann", "password": "s3cret-word", **more}


def secure(server: Server, folder: Path, **tls: Any) -> dict[str, Any]:
    found = {
        "ca_file": str(folder / "ca.pem"),
        "cert_file": str(folder / "client.pem"),
        "key_file": str(folder / "client.key"),
    }
    return plain(server, server=f"localhost:{server.tls_port}", tls={**found, **tls})


@pytest.mark.anyio
@pytest.mark.spec("MQ-20")
async def test_tls_with_a_client_certificate(tmp_path: Path, guarded: tuple[Server, Path]) -> None:
    server, folder = guarded
    source = build(tmp_path, secure(server, folder))
    from tests.mqtt.sources import running as receiving

    async with receiving(source) as intake, running(Kit(tmp_path).sink("mqtt", secure(server, folder))) as sink:
        for event in numbered(50):
            assert (await attempt(sink, event)).delivered
        await until(lambda: len(intake.events) == 50, "the events")
    assert source.address.startswith("mqtts://localhost:")


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.spec("MQ-17")
async def test_a_wrong_password_stops_the_start(tmp_path: Path, guarded: tuple[Server, Path], version: str) -> None:
    source = build(tmp_path, plain(guarded[0], password="wr0ng-word", version=version))
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError) as raised:
            await source.start(MemoryIntake(), tasks)
        await source.stop()
    assert "not authorized" in str(raised.value).lower() or "bad user name" in str(raised.value).lower()
    assert "wr0ng-word" not in str(raised.value)


@pytest.mark.spec("MQ-17", "MQ-20")
def test_check_connect_says_what_is_wrong(guarded: tuple[Server, Path]) -> None:
    server, folder = guarded
    good = MqttSinkConfig.model_validate(secure(server, folder))
    assert good.end == f"MQTT at mqtts://localhost:{server.tls_port} as ann"
    good.connect(10)
    for options, said in [
        (plain(server, password="wr0ng-word"), "not authorized"),
        (secure(server, folder, ca_file=None), "certificate"),
        (secure(server, folder, cert_file=None, key_file=None), ""),
        (plain(server, server="127.0.0.1:1"), "refused"),
        (secure(server, folder, ca_file=str(folder / "none.pem")), "can't be used"),
    ]:
        with pytest.raises(OSError) as raised:
            MqttSinkConfig.model_validate(options).connect(10)
        assert said in str(raised.value).lower()
        assert "\n" not in str(raised.value)
        assert "wr0ng-word" not in str(raised.value)
