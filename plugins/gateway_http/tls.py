"""TLS contexts for both sides, TLS 1.2 and later."""

from __future__ import annotations

import ssl

from gateway_core.contract.errors import StartError

from .config import ClientTlsConfig, ServerTlsConfig


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


def client_context(config: ClientTlsConfig, owner: str) -> ssl.SSLContext:
    """Verifies certificate and host name unless the config says otherwise. Raises `StartError` as above."""
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
