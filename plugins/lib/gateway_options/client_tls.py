"""The client's side of TLS, 1.2 and later."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import model_validator

from gateway_core.contract.component import Config
from gateway_core.contract.errors import StartError
from gateway_core.contract.files import check_regular
from gateway_core.contract.needed_files import FileFault

from .certificate_files import certificate_faults
from .renewed_tls import RenewedContext


class ClientTlsConfig(Config):
    """The client's side of TLS. Files that are renewed under the same names are used for new connections."""

    ca_file: Path | None = None
    """Certificate authorities to trust (PEM) instead of the system's."""
    cert_file: Path | None = None
    """The client's certificate chain, PEM."""
    key_file: Path | None = None
    """Its private key, PEM and without a password, if it is not in `cert_file`."""
    verify: bool = True
    """`false` accepts any certificate and any host name. For tests only."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("`key_file` is the key of a certificate: set `cert_file` too")
        return self

    def file_faults(self) -> Iterator[FileFault]:
        """See `gateway_core.contract.needed_files.NeedsFiles`."""
        return certificate_faults(self.cert_file, self.key_file, self.ca_file)


def client_context(config: ClientTlsConfig, owner: str) -> ssl.SSLContext:
    """Verifies certificate and host name unless the config says otherwise. Each new connection uses the files as they
    are then (`RenewedContext`). Raises `StartError` if a file can't be used."""
    files = [file for file in (config.ca_file, config.cert_file, config.key_file) if file is not None]
    try:
        return RenewedContext(lambda: _context(config), files, owner) if files else _context(config)
    except OSError as e:
        raise StartError(f"{owner}.tls: the certificate files can't be used: {e}") from e


def _context(config: ClientTlsConfig) -> ssl.SSLContext:
    """Raises `OSError` (`ssl.SSLError` too) if a file can't be used."""
    check_regular(config.ca_file, config.cert_file, config.key_file)
    context = ssl.create_default_context(cafile=str(config.ca_file) if config.ca_file else None)
    if config.cert_file is not None:
        # without the function OpenSSL would ask for a password at the terminal
        context.load_cert_chain(config.cert_file, config.key_file, lambda: "")
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not config.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
