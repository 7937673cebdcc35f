"""Certificate files of clients that are renewed under the same names, at a real TLS server."""

from __future__ import annotations

import logging
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from gateway_options import renewed
from gateway_options.client_tls import ClientTlsConfig, client_context

from tests.transport.test_client_tls import greeting, server

pytestmark = pytest.mark.spec("OC-01")


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture(autouse=True)
def _always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed, "CHECK_S", 0.0)


def issue(ca: trustme.CA, folder: Path, who: str) -> None:
    """Writes the client's files, as a certificate manager does: new files under the same names."""
    made = ca.issue_cert(who, key_type=trustme.KeyType.ECDSA)
    for name, blob in {"chain.pem": made.cert_chain_pems[0], "key.pem": made.private_key_pem}.items():
        blob.write_to_path(folder / "new")
        (folder / "new").rename(folder / name)


def options(folder: Path) -> ClientTlsConfig:
    return ClientTlsConfig(ca_file=folder / "ca.pem", cert_file=folder / "chain.pem", key_file=folder / "key.pem")


def test_a_new_connection_shows_the_renewed_certificate(
    ca: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    issue(ca, tmp_path, "first@example.com")
    caplog.set_level(logging.INFO, "gateway_options.renewed")
    with server(ca, asks=True) as far:
        context = client_context(options(tmp_path), "triggers.t.subscriber")
        assert greeting(context, far.port) == "hello"
        issue(ca, tmp_path, "second@example.com")
        assert greeting(context, far.port) == greeting(context, far.port) == "hello"
        assert ["first@" in p or "second@" not in p for p in far.peers] == [True, False, False]
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == ["triggers.t.subscriber"]


@pytest.mark.parametrize("broken", ["no certificate", "", None])
def test_files_that_cannot_be_used_change_nothing(
    ca: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    issue(ca, tmp_path, "first@example.com")
    with server(ca, asks=True) as far:
        context = client_context(options(tmp_path), "owner")
        if broken is None:
            (tmp_path / "key.pem").unlink()
        else:
            (tmp_path / "chain.pem").write_text(broken)
        assert [greeting(context, far.port) for _ in range(5)] == ["hello"] * 5
        assert [r.levelname for r in caplog.records] == ["WARNING"], "one line, not one for each connection"
        assert "\n" not in caplog.records[0].getMessage()
        issue(ca, tmp_path, "second@example.com")
        assert greeting(context, far.port) == "hello"
        assert ["second@" in p for p in far.peers] == [False] * 5 + [True]


def test_authorities_are_renewed_too(ca: trustme.CA, tmp_path: Path) -> None:
    """One that was taken out of the file is no longer trusted."""
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    with server(ca) as far:
        context = client_context(ClientTlsConfig(ca_file=tmp_path / "ca.pem"), "owner")
        assert greeting(context, far.port) == "hello"
        trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
        with pytest.raises(ssl.SSLCertVerificationError):
            greeting(context, far.port)


def test_a_library_s_protocols_outlive_a_renewal(ca: trustme.CA, tmp_path: Path) -> None:
    """httpx sets them once per connection pool, on the context that it was given."""
    issue(ca, tmp_path, "first@example.com")
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.set_alpn_protocols(["h2"])
    ca.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(serving)
    context = client_context(options(tmp_path), "owner")
    context.set_alpn_protocols(["h2", "http/1.1"])
    for who in ("second@example.com", "third@example.com"):
        server_in, server_out, client_in, client_out = (ssl.MemoryBIO() for _ in range(4))
        far = serving.wrap_bio(server_in, server_out, server_side=True)
        near = context.wrap_bio(client_in, client_out, server_hostname="127.0.0.1")
        for _ in range(3):
            for end in (near, far):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                server_in.write(client_out.read())
                client_in.write(server_out.read())
        assert near.selected_alpn_protocol() == "h2"
        issue(ca, tmp_path, who)
