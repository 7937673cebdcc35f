"""The certificate of the admin API's address."""

from __future__ import annotations

from pathlib import Path

from gateway_serving.tls import ServerTls, ServerTlsConfig


def certificate(path: Path) -> ServerTls:
    """TLS with the certificate in a folder (`tls.crt`, `tls.key`), or in a PEM file with chain and key. Raises
    `StartError` if it can't be used."""
    chain, key = (path / "tls.crt", path / "tls.key") if path.is_dir() else (path, path)
    return ServerTls(ServerTlsConfig(cert_file=chain, key_file=key), "TIDEGATE_ADMIN")
