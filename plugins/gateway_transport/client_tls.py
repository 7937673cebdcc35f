"""The client's side of TLS, 1.2 and later."""

from __future__ import annotations

import ssl
from pathlib import Path

from gateway_core.contract.component import Config
from gateway_core.contract.errors import StartError


class ClientTlsConfig(Config):
    """The client's side of TLS."""

    ca_file: Path | None = None
    """Certificate authorities to trust (PEM) instead of the system's."""
    cert_file: Path | None = None
    """The client's certificate chain, PEM."""
    key_file: Path | None = None
    """Its private key, PEM, if it is not in `cert_file`."""
    verify: bool = True
    """`false` accepts any certificate and any host name. For tests only."""


def client_context(config: ClientTlsConfig, owner: str) -> ssl.SSLContext:
    """Verifies certificate and host name unless the config says otherwise. Raises `StartError` if a file can't be
    used."""
    try:
        context = ssl.create_default_context(cafile=str(config.ca_file) if config.ca_file else None)
        if config.cert_file is not None:
            context.load_cert_chain(config.cert_file, config.key_file)
    except OSError as e:
        raise StartError(f"{owner}.tls: the certificate files can't be used: {e}") from e
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not config.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
