"""HTTPS on both ends, with both engines of each."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from gateway_core.contract.errors import StartError
from tests import web
from tests.faults.proxy import Proxy
from tests.twins import twins

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    called = getattr(request.node, "callspec", None)
    return "asyncio", {"use_uvloop": called is None or called.params.get("loop") != "asyncio"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    ca, other = trustme.CA(key_type=trustme.KeyType.ECDSA), trustme.CA(key_type=trustme.KeyType.ECDSA)
    ca.cert_pem.write_to_path(folder / "ca.pem")
    other.cert_pem.write_to_path(folder / "other.pem")
    for name, cert in {
        "server": ca.issue_cert("127.0.0.1", "localhost", key_type=trustme.KeyType.ECDSA),
        "elsewhere": ca.issue_cert("elsewhere.example", key_type=trustme.KeyType.ECDSA),
        "client": ca.issue_cert("someone@example.org", key_type=trustme.KeyType.ECDSA),
    }.items():
        cert.private_key_pem.write_to_path(folder / f"{name}.key")
        for blob in cert.cert_chain_pems:
            blob.write_to_path(folder / f"{name}.pem", append=True)
    return folder


def pair(folder: Path, name: str, **more: Any) -> dict[str, Any]:
    return {"cert_file": folder / f"{name}.pem", "key_file": folder / f"{name}.key", **more}


@pytest.mark.slow
@pytest.mark.spec("BR-09")
@pytest.mark.parametrize("server", twins("native", "hypercorn"))
@pytest.mark.parametrize("client", twins("native", "httpx"))
async def test_https(kit: Any, intake: Any, folder: Path, server: str, client: str) -> None:
    async with kit.source(intake, server=server, tls=pair(folder, "server")) as source:
        assert source.address.startswith("https://127.0.0.1:")
        trusted = {"ca_file": folder / "ca.pem"}
        async with kit.sink(source.address, client=client, tls=trusted) as sink:
            for _ in range(3):
                assert (await kit.send(sink)).code == 202
        async with kit.sink(source.address, client=client, tls={"ca_file": folder / "other.pem"}) as sink:
            outcome = await kit.send(sink)
            assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)
            assert "certificate" in outcome.reason.lower()
        async with kit.sink(source.address, client=client, tls={"verify": False}) as sink:
            assert (await kit.send(sink)).delivered
        assert len(intake.events) == 4


@pytest.mark.parametrize("client", twins("native", "httpx"))
async def test_the_host_name_is_verified(kit: Any, intake: Any, folder: Path, client: str) -> None:
    async with kit.source(intake, tls=pair(folder, "elsewhere")) as source:
        async with kit.sink(source.address, client=client, tls={"ca_file": folder / "ca.pem"}) as sink:
            assert (await kit.send(sink)).retry
        assert intake.events == []


@pytest.mark.parametrize("server", twins("native", "hypercorn"))
async def test_client_certificates(kit: Any, intake: Any, folder: Path, server: str) -> None:
    asked = pair(folder, "server", client_ca_file=folder / "ca.pem")
    async with kit.source(intake, server=server, tls=asked) as source:
        async with kit.sink(source.address, tls={"ca_file": folder / "ca.pem"}) as sink:
            assert (await kit.send(sink)).retry
        async with kit.sink(source.address, tls=pair(folder, "client", ca_file=folder / "ca.pem")) as sink:
            assert (await kit.send(sink)).delivered
        assert len(intake.events) == 1


@pytest.mark.slow
async def test_http2_by_hypercorn(kit: Any, intake: Any, folder: Path) -> None:
    trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    headers = {"ce-id": "1"}
    async with (
        kit.source(intake, server="hypercorn", tls=pair(folder, "server")) as source,
        web.async_client(http1=False, http2=True, verify=trust) as client,
    ):
        response = await client.post(source.address, headers=headers, content=b"x" * 65_536)
        assert (response.status_code, response.http_version) == (202, "HTTP/2")
        assert (await client.get(source.address)).status_code == 405
        assert (await client.post(source.address)).status_code == 400
    async with (
        kit.source(intake, server="hypercorn") as source,
        web.async_client(http1=False, http2=True, verify=False) as client,
    ):
        response = await client.post(source.address, headers=headers, content=b"prior knowledge")
        assert (response.status_code, response.http_version) == (202, "HTTP/2")
    assert len(intake.events[0].data) == 65_536


@pytest.mark.slow
@pytest.mark.spec("SAFE-75", "SAFE-78")
@pytest.mark.parametrize("server", ["native", "hypercorn"])
async def test_a_connection_that_died_without_a_word_is_used_once(
    kit: Any, intake: Any, folder: Path, server: str, client: str
) -> None:
    """With httpx and hypercorn all requests share one connection of HTTP/2."""
    async with kit.source(intake, server=server, tls=pair(folder, "server")) as source:
        port = urlsplit(source.address).port
        assert port is not None
        with Proxy(port) as proxy:
            address = source.address.replace(str(port), str(proxy.port))
            async with kit.sink(address, client=client, tls={"ca_file": folder / "ca.pem"}) as sink:
                assert (await kit.send(sink)).delivered
                assert proxy.forget() == 1
                outcome = await kit.send(sink, timeout_s=0.5)
                assert (outcome.delivered, outcome.retry) == (False, True)
                assert (await kit.send(sink)).delivered
            assert proxy.accepted == 2


async def test_refusals_and_pipelining_over_tls(kit: Any, intake: Any, folder: Path, request_bytes: Any) -> None:
    trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    intake.hold = True
    async with kit.source(intake, tls=pair(folder, "server")) as source, kit.connect(source, trust) as client:
        client.write(request_bytes("0") + request_bytes("1") + b"nonsense\r\n\r\n")
        await kit.until(lambda: len(intake.held) == 2)
        intake.held[1](None)
        intake.held[0](None)
        assert [(await client.response())[0] for _ in range(3)] == [202, 202, 400]
        assert await client.rest() == b""


async def test_unusable_certificates_name_their_owner(kit: Any, folder: Path) -> None:
    with pytest.raises(StartError, match=r"brokers\.b\.ingress\.tls"):
        kit.build("source", {"tls": {"cert_file": "/no.pem", "key_file": "/no.key"}}, owner="brokers.b.ingress")
    with pytest.raises(StartError, match=r"triggers\.t\.subscriber\.tls"):
        kit.build("sink", {"url": "https://h/", "tls": {"ca_file": "/no.pem"}}, owner="triggers.t.subscriber")


@pytest.mark.spec("OC-01")
@pytest.mark.parametrize("loop", twins("uvloop", "asyncio"))
@pytest.mark.parametrize("client", twins("native", "httpx"))
async def test_a_renewed_client_certificate_is_used(
    kit: Any, intake: Any, folder: Path, tmp_path: Path, client: str, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server trusts one authority; the client's first certificate is from another one."""
    monkeypatch.setattr("gateway_options.renewed.CHECK_S", 0.0)
    trustme.CA().issue_cert("someone@example.org").private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    asked = pair(folder, "server", client_ca_file=folder / "ca.pem")
    async with kit.source(intake, tls=asked) as source:
        tls = {"cert_file": tmp_path / "client.pem", "ca_file": folder / "ca.pem"}
        async with kit.sink(source.address, client=client, tls=tls) as sink:
            assert (await kit.send(sink)).retry
            (tmp_path / "client.pem").write_bytes(
                (folder / "client.key").read_bytes() + (folder / "client.pem").read_bytes()
            )
            assert (await kit.send(sink)).delivered
