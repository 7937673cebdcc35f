"""`gateway_options.client_tls`: the TLS of clients, at a real TLS server in this process."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from gateway_options.client_tls import ClientTlsConfig, client_context

from gateway_core.contract.errors import StartError

pytestmark = pytest.mark.spec("TR-09")


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ca.pem`, and the client's `chain.pem`, `key.pem`, and both in `both.pem`."""
    folder = tmp_path_factory.mktemp("tls")
    ca.cert_pem.write_to_path(folder / "ca.pem")
    client = ca.issue_cert("gateway@example.com")
    client.private_key_pem.write_to_path(folder / "key.pem")
    client.cert_chain_pems[0].write_to_path(folder / "chain.pem")
    client.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    return folder


class Served:
    """What the server saw: the subject of the client's certificate, one for each connection."""

    def __init__(self) -> None:
        self.port = 0
        self.peers: list[str] = []


@contextmanager
def server(ca: trustme.CA, *, asks: bool = False, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Iterator[Served]:
    """A TLS server on 127.0.0.1 that sends "hello". With `asks` it wants a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    ca.issue_cert("127.0.0.1").configure_cert(context)
    if asks:
        ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    served = Served()

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.settimeout(30)
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                served.peers.append(str(secure.getpeercert()))
                secure.sendall(b"hello")
                secure.unwrap()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        served.port = listener.getsockname()[1]
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield served
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def greeting(context: ssl.SSLContext, port: int, name: str = "127.0.0.1") -> str:
    """What a client with this context reads."""
    with (
        socket.create_connection(("127.0.0.1", port), 30) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        return secure.recv(16).decode()


def test_it_trusts_the_authorities_of_the_config(ca: trustme.CA, files: Path) -> None:
    with server(ca) as far:
        trusting = client_context(ClientTlsConfig(ca_file=files / "ca.pem"), "owner")
        assert greeting(trusting, far.port) == "hello"
        with pytest.raises(ssl.SSLCertVerificationError):
            greeting(client_context(ClientTlsConfig(), "owner"), far.port)


def test_the_host_name_counts(ca: trustme.CA, files: Path) -> None:
    context = client_context(ClientTlsConfig(ca_file=files / "ca.pem"), "owner")
    with server(ca) as far, pytest.raises(ssl.SSLCertVerificationError):
        greeting(context, far.port, "localhost")


def test_without_verification_anything_is_accepted(ca: trustme.CA) -> None:
    with server(ca) as far:
        assert greeting(client_context(ClientTlsConfig(verify=False), "owner"), far.port, "localhost") == "hello"


@pytest.mark.parametrize(("chain", "key"), [("chain.pem", "key.pem"), ("both.pem", None)])
def test_it_shows_its_certificate(ca: trustme.CA, files: Path, chain: str, key: str | None) -> None:
    options = ClientTlsConfig(ca_file=files / "ca.pem", cert_file=files / chain, key_file=files / key if key else None)
    with server(ca, asks=True) as far:
        assert greeting(client_context(options, "owner"), far.port) == "hello"
        assert "gateway@example.com" in far.peers[0]


def test_it_speaks_nothing_older_than_1_2(ca: trustme.CA, files: Path) -> None:
    context = client_context(ClientTlsConfig(ca_file=files / "ca.pem"), "owner")
    with server(ca, newest=ssl.TLSVersion.TLSv1_2) as far:
        assert greeting(context, far.port) == "hello"
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("option", ["ca_file", "cert_file", "key_file"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_that_cannot_be_used_stops_the_start(
    files: Path, tmp_path: Path, option: str, content: str | None
) -> None:
    file = tmp_path / "odd.pem"
    if content is not None:
        file.write_text(content)
    given: dict[str, Any] = {"cert_file": files / "chain.pem", "key_file": files / "key.pem", option: file}
    with pytest.raises(StartError, match=r"^owner\.tls: the certificate files can't be used: ") as raised:
        client_context(ClientTlsConfig(**given), "owner")
    assert "\n" not in str(raised.value)


def test_a_key_without_a_certificate_is_a_mistake(files: Path) -> None:
    with pytest.raises(ValueError, match="set `cert_file` too"):
        ClientTlsConfig(key_file=files / "key.pem")


def test_nobody_is_asked_for_the_password_of_a_key(files: Path, tmp_path: Path) -> None:
    """OpenSSL would ask at the terminal, and the gateway would wait."""
    key = serialization.load_pem_private_key((files / "key.pem").read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    (tmp_path / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, secret))
    options = ClientTlsConfig(cert_file=files / "chain.pem", key_file=tmp_path / "key.pem")
    with pytest.raises(StartError, match="can't be used"):
        client_context(options, "owner")
