"""TLS options of commands that send events."""

from __future__ import annotations

import ssl
from pathlib import Path

import typer
from gateway_options.client_tls import ClientTlsConfig, client_context
from pydantic import ValidationError

from gateway_core.contract.cli import common
from gateway_core.contract.errors import StartError

Files = tuple[Path | None, Path | None, Path | None]
"""Authorities, a certificate chain and its key."""


def tls_of(files: Files) -> ssl.SSLContext | None:
    """The context for these files, None if there are none. Raises `CommandError`, `BadParameter`."""
    ca_file, cert_file, key_file = files
    try:
        given = ClientTlsConfig(ca_file=ca_file, cert_file=cert_file, key_file=key_file)
        return client_context(given, "send") if any(files) else None
    except ValidationError:
        raise typer.BadParameter("pass --cert-file too", param_hint="--key-file") from None
    except StartError as e:
        raise common.CommandError(f"the certificate files can't be used: {e.__cause__}") from e
