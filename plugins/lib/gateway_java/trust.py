"""Which certificate authorities a Java that downloads trusts: those of this machine. A proxy that inspects TLS signs
for every server with an authority of its own, which is not on the list that a Java from a package brings."""

from __future__ import annotations

import os
import ssl
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_JAVA_STORES = ("/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts")
_PASSWORD = "changeit"  # Java's usual one; there is nothing secret in a list of authorities


def trust_options(folder: Path, env: Mapping[str, str] | None = None) -> list[str]:
    """Java's options for the authorities in the file that `SSL_CERT_FILE` names, else for the system's Java trust
    store, else for the authorities that Python trusts. What Java can't read is written into `folder`. Empty if there
    are none of these, or the package `cryptography` is missing: then Java trusts its own list. Raises `OSError`."""
    env = os.environ if env is None else env
    named = env.get("SSL_CERT_FILE")
    system = next((store for store in _JAVA_STORES if os.path.isfile(store)), None)
    if system and not named:
        return [f"-Djavax.net.ssl.trustStore={system}"]
    store = _written(_authorities(named), folder / "authorities.p12")
    if store is None:
        return [f"-Djavax.net.ssl.trustStore={system}"] if system else []
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def _authorities(named: str | None) -> list[bytes]:
    """Certificates, DER. Raises `OSError`."""
    if not named:
        return ssl.create_default_context().get_ca_certs(binary_form=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(named)
    except OSError as e:
        raise OSError(f"can't use the certificates in {named} (SSL_CERT_FILE): {e}") from e
    return context.get_ca_certs(binary_form=True)


def _written(authorities: list[bytes], file: Path) -> Path | None:
    try:
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
        from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
        from cryptography.utils import CryptographyDeprecationWarning
        from cryptography.x509 import load_der_x509_certificate
    except ImportError:
        return None
    trusted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)  # old authorities have odd serial numbers
        for der in authorities:
            # one that OpenSSL can read and this library can't is no reason to trust none
            with suppress(ValueError):
                trusted.append(PKCS12Certificate(load_der_x509_certificate(der), None))
    if not trusted:
        return None
    file.write_bytes(serialize_java_truststore(trusted, BestAvailableEncryption(_PASSWORD.encode())))
    return file
