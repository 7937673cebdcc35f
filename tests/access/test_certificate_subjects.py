"""Subjects of certificates: what `subjects` compares is what `openssl` prints."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.x509.oid import NameOID
from gateway_auth.certificate_names import names_of

from tests.access.certificates import CN, KIND, ORGANIZATION, Attribute, client_pem, server_files, trusting

SUBJECTS: list[list[Attribute]] = [
    [(NameOID.COUNTRY_NAME, "DE"), (ORGANIZATION, "Shop"), (CN, "orders")],
    [(NameOID.STATE_OR_PROVINCE_NAME, "Bayern"), (NameOID.LOCALITY_NAME, "München"), (CN, "Grüße")],
    [(NameOID.DOMAIN_COMPONENT, "example"), (NameOID.DOMAIN_COMPONENT, "shop"), (NameOID.USER_ID, "orders")],
    [(ORGANIZATION, 'A "B" + C, D; <E> = \\F'), (NameOID.ORGANIZATIONAL_UNIT_NAME, "#1"), (CN, " orders ")],
    [(NameOID.STREET_ADDRESS, "1 Main St"), (CN, "a"), (CN, "b")],
    [(NameOID.EMAIL_ADDRESS, "orders@shop.example"), (NameOID.SERIAL_NUMBER, "17"), (CN, "orders")],
]


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """The client's certificate, as the server sees it."""
    here, there = socket.socketpair()
    found: list[Any] = []

    def serve() -> None:
        with server.wrap_socket(there, server_side=True) as secured:
            found.append(secured.getpeercert())
            secured.sendall(b"!")

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(here, server_hostname="localhost") as secured:
        assert secured.recv(1) == b"!"
    thread.join()
    (certificate,) = found
    assert isinstance(certificate, dict)
    return certificate


@pytest.mark.spec("HM-13")
@pytest.mark.usefixtures("processes")
def test_subjects_are_written_as_openssl_prints_them(tmp_path: Path) -> None:
    ca = trustme.CA(key_type=KIND)
    files = server_files(ca, tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files["cert_file"], files["key_file"])
    ca.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    for subject in SUBJECTS:
        pem = client_pem(ca, *subject)
        command = ["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253,-esc_msb"]
        printed = subprocess.run(command, input=pem, capture_output=True, check=True).stdout.decode()
        found = names_of(handshake(server, trusting(ca, tmp_path, pem)))
        assert found.subject == printed.removeprefix("subject=").strip("\n")
