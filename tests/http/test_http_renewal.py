"""Certificates that are renewed under the same name, and client authorities that change, while the source serves."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
import trustme
from anyio.streams.tls import TLSAttribute

from gateway_core.contract.errors import StartError
from tests.twins import twins

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("real_time")]

_KIND = trustme.KeyType.ECDSA


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    called = getattr(request.node, "callspec", None)
    return "asyncio", {"use_uvloop": called is None or called.params.get("loop") != "asyncio"}


class Site:
    """A server's files, and what its clients need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca, self.other = trustme.CA(key_type=_KIND), trustme.CA(key_type=_KIND)
        self.clients = folder / "clients.pem"
        self.ca.cert_pem.write_to_path(folder / "ca.pem")
        self.ca.cert_pem.write_to_path(self.clients)
        self.renew()

    def options(self, **more: Any) -> dict[str, Any]:
        return {"cert_file": self.folder / "cert.pem", "key_file": self.folder / "key.pem", **more}

    def renew(self) -> None:
        """The certificate first, the key after it, as most tools do."""
        cert = self.ca.issue_cert("localhost", "127.0.0.1", key_type=_KIND)
        (self.folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in cert.cert_chain_pems))
        cert.private_key_pem.write_to_path(self.folder / "key.pem")

    def client(self, ca: trustme.CA | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if ca is not None:
            ca.issue_cert("orders", key_type=_KIND).configure_cert(context)
        return context


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def served(source: Any, trust: ssl.SSLContext) -> int:
    """The serial number of the certificate that a new connection gets."""
    parts = urlsplit(source.address)
    async with await anyio.connect_tcp(
        parts.hostname or "", parts.port or 0, tls=True, ssl_context=trust, tls_standard_compatible=False
    ) as stream:
        found = stream.extra(TLSAttribute.peer_certificate) or {}
        return int(str(found["serialNumber"]), 16)


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(60):
        while not await true():  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def renewed(source: Any, trust: ssl.SSLContext, before: int) -> int:
    """The serial number of the next certificate that new connections get."""

    async def new() -> bool:
        return await served(source, trust) != before

    await until(new)
    return await served(source, trust)


@pytest.mark.spec("HM-02")
@pytest.mark.parametrize("server", twins("native", "hypercorn"))
async def test_renewal_under_load_refuses_nobody(
    kit: Any, intake: Any, site: Site, server: str, request_bytes: Any
) -> None:
    trust, answered = site.client(), list[str]()
    async with kit.source(intake, server=server, tls=site.options()) as source, anyio.create_task_group() as tasks:

        async def keep_sending(sender: int) -> None:
            while True:
                async with kit.connect(source, trust) as client:
                    for _ in range(3):
                        id = f"{sender}-{len(answered)}"
                        client.write(request_bytes(id))
                        assert (await client.response())[0] == 202
                        answered.append(id)
                await anyio.sleep(0.01)

        async with kit.connect(source, trust) as lasting:
            for sender in range(2):
                tasks.start_soon(keep_sending, sender)
            before = await served(source, trust)
            for _ in range(2):
                site.renew()
                before = await renewed(source, trust, before)
            lasting.write(request_bytes("last"))
            assert (await lasting.response())[0] == 202
        tasks.cancel_scope.cancel()
    assert len(answered) > 10
    assert set(answered) <= set(intake.ids())


@pytest.mark.spec("HM-03")
async def test_broken_files_keep_the_old_certificate(
    kit: Any, intake: Any, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    trust = site.client()
    async with kit.source(intake, tls=site.options()) as source:
        before = await served(source, trust)
        (site.folder / "cert.pem").write_text("nonsense")

        async def logged() -> bool:
            assert await served(source, trust) == before
            return bool(caplog.records)

        await until(logged)
        site.renew()
        await renewed(source, trust, before)
    assert [r.getMessage().split(":")[0] for r in caplog.records if r.levelno >= logging.WARNING] == ["here.tls"]


async def lets_in(kit: Any, source: Any, site: Site, request: bytes, ca: trustme.CA | None) -> bool:
    """Whether a client with a certificate of this authority, or without one, gets 202."""
    try:
        async with kit.connect(source, site.client(ca)) as client:
            client.write(request)
            return bool((await client.response())[0] == 202)
    except (OSError, EOFError):
        return False


@pytest.mark.spec("HM-04")
async def test_an_authority_that_is_removed_vouches_for_nobody(
    kit: Any, intake: Any, site: Site, request_bytes: Any
) -> None:
    async with kit.source(intake, tls=site.options(client_ca_file=site.clients)) as source:
        comes_in = partial(lets_in, kit, source, site, request_bytes())
        assert await comes_in(site.ca)
        assert not await comes_in(site.other)
        site.other.cert_pem.write_to_path(site.clients)

        async def changed() -> bool:
            return await comes_in(site.other)

        await until(changed)
        assert not await comes_in(site.ca)


def _sends(port: int, client: ssl.SSLContext, request: bytes) -> Generator[tuple[bytes, bool], None, None]:
    """Answers to requests on connections one after the other, each of which resumes the last session if it can, and
    whether it did. They stay open: OpenSSL forgets the sessions of connections that were cut off."""
    session = None
    with ExitStack() as open_ones:
        while True:
            plain = open_ones.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            secured = client.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
            open_ones.enter_context(secured)
            secured.sendall(request)
            answer, session = secured.recv(4096)[9:12], secured.session
            yield answer, bool(secured.session_reused)


@pytest.mark.spec("HM-04")
@pytest.mark.parametrize("loop", twins("uvloop", "asyncio"))
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_resumed_session_does_not_outlive_the_certificate(
    kit: Any,
    intake: Any,
    site: Site,
    request_bytes: Any,
    monkeypatch: pytest.MonkeyPatch,
    version: ssl.TLSVersion,
    loop: str,
) -> None:
    client = site.client(site.ca)
    client.maximum_version = version
    async with kit.source(intake, tls=site.options(client_ca_file=site.clients)) as source:
        sends = _sends(urlsplit(source.address).port or 0, client, request_bytes())

        async def send() -> tuple[bytes, bool]:
            with anyio.fail_after(60):
                return await anyio.to_thread.run_sync(next, sends)

        assert await send() == (b"202", False)
        assert await send() == (b"202", version == ssl.TLSVersion.TLSv1_2)
        now = time.time()
        monkeypatch.setattr("gateway_serving.tls.time", SimpleNamespace(time=lambda: now + 2000 * 365 * 86400))
        if version == ssl.TLSVersion.TLSv1_2:
            with pytest.raises((OSError, AssertionError)):
                assert (await send())[0] == b"202"
            sends = _sends(urlsplit(source.address).port or 0, client, request_bytes())
        assert await send() == (b"202", False)  # after a full handshake, with OpenSSL's own time
        sends.close()


@pytest.mark.spec("HM-17")
async def test_without_the_file_of_authorities_no_client_gets_in(
    kit: Any, intake: Any, site: Site, request_bytes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with kit.source(intake, tls=site.options(client_ca_file=site.clients)) as source:
        comes_in = partial(lets_in, kit, source, site, request_bytes())
        assert await comes_in(site.ca)
        site.clients.unlink()

        async def shut() -> bool:
            return not await comes_in(site.ca)

        await until(shut)
        assert not await comes_in(site.other)
        assert not await comes_in(None)
        assert len([r for r in caplog.records if "was removed" in r.getMessage()]) == 1
        for name in ("cert.pem", "key.pem"):
            (site.folder / name).rename(site.folder / f"{name}.aside")
        await anyio.sleep(1.2)
        assert not await comes_in(site.ca)
        for name in ("cert.pem", "key.pem"):
            (site.folder / f"{name}.aside").rename(site.folder / name)
        site.ca.cert_pem.write_to_path(site.clients)

        async def back() -> bool:
            return await comes_in(site.ca)

        await until(back)


@pytest.mark.spec("HM-17")
@pytest.mark.parametrize("name", ["cert.pem", "key.pem", "clients.pem"])
async def test_a_pipe_in_the_place_of_a_certificate_holds_nothing(kit: Any, intake: Any, site: Site, name: str) -> None:
    (site.folder / name).unlink()
    os.mkfifo(site.folder / name)
    with pytest.raises(StartError, match="not a regular file"):
        kit.build("source", {"listen": "127.0.0.1:0", "tls": site.options(client_ca_file=site.clients)})
    given = {"ca_file": site.folder / "clients.pem", **site.options()}
    with pytest.raises(StartError, match="not a regular file"):
        kit.build("sink", {"url": "https://h/", "tls": given})
