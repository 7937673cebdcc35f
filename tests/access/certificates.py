"""Certificates for the tests of `mtls`, also such as no proper authority would sign."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KIND = trustme.KeyType.ECDSA
Attribute = tuple[x509.ObjectIdentifier, str]
CN, ORGANIZATION = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME


def server_files(ca: trustme.CA, folder: Path) -> dict[str, str]:
    """The server's certificate for 127.0.0.1, as options of `tls`; the certificate is written before the key."""
    cert = ca.issue_cert("127.0.0.1", "localhost", key_type=KIND)
    (folder / "server.pem").write_bytes(b"".join(pem.bytes() for pem in cert.cert_chain_pems))
    cert.private_key_pem.write_to_path(folder / "server.key")
    return {"cert_file": str(folder / "server.pem"), "key_file": str(folder / "server.key")}


def client_pem(
    ca: trustme.CA, *subject: Attribute, dns: Sequence[str] = (), uris: Sequence[str] = (), days: int = 1
) -> bytes:
    """A client's certificate and key, signed by `ca`, with exactly these names. `days` until it ends."""
    signer = serialization.load_pem_private_key(ca.private_key_pem.bytes(), None)
    issuer = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(oid, value) for oid, value in subject]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
    )
    names = [x509.DNSName(name) for name in dns] + [x509.UniformResourceIdentifier(uri) for uri in uris]
    if names:
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    cert = built.sign(signer, hashes.SHA256())
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return cert.public_bytes(serialization.Encoding.PEM) + key.private_bytes(serialization.Encoding.PEM, *plain)


def trusting(ca: trustme.CA, folder: Path, pem: bytes | None = None) -> ssl.SSLContext:
    """A client's context that trusts `ca`, with a certificate if there is one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.configure_trust(context)
    if pem is not None:
        file = folder / "client.pem"
        file.write_bytes(pem)
        context.load_cert_chain(file)
    return context
