"""The server's side of TLS, 1.2 and later."""

from __future__ import annotations

import ssl

from gateway_core.contract.errors import StartError

from .config import ServerTlsConfig


def server_context(config: ServerTlsConfig, owner: str) -> ssl.SSLContext:
    """Raises `StartError` if a file can't be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(config.cert_file, config.key_file)
        if config.client_ca_file is not None:
            context.load_verify_locations(config.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as e:
        raise StartError(f"{owner}.tls: the certificate files can't be used: {e}") from e
    return context
