"""The server's side of TLS, 1.2 and later."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gateway_options.certificate_files import certificate_faults
from gateway_options.renewed import Renewed

from gateway_core.contract.component import Config
from gateway_core.contract.errors import StartError
from gateway_core.contract.files import check_regular
from gateway_core.contract.needed_files import FileFault


class ServerTlsConfig(Config):
    """The server's side of TLS. Files that change are read again for new connections; files that can't be used leave
    the last ones in use. If `client_ca_file` is removed, no client gets in until it is back."""

    cert_file: Path
    """The certificate chain, PEM."""
    key_file: Path
    """Its private key, PEM."""
    client_ca_file: Path | None = None
    """Certificate authorities (PEM) that must have signed the client's certificate. Without it, clients need no
    certificate."""

    def file_faults(self) -> Iterator[FileFault]:
        """See `gateway_core.contract.needed_files.NeedsFiles`."""
        for fault in certificate_faults(self.cert_file, self.key_file, self.client_ca_file):
            yield fault._replace(option="client_ca_file") if fault.option == "ca_file" else fault


class _FullHandshakes(ssl.SSLObject):
    """A connection whose client must have a valid certificate. A resumed session would continue with one that has
    expired, since only a full handshake verifies it. TLS 1.3 never resumes without tickets; TLS 1.2 does from
    OpenSSL's cache, which forgets the session of a connection that is cut off."""

    def do_handshake(self) -> None:
        super().do_handshake()
        if self.session_reused and ssl.cert_time_to_seconds(str((self.getpeercert() or {})["notAfter"])) < time.time():
            raise ssl.SSLError("the client's certificate has expired")


class ServerTls:
    """The TLS context for new connections. It follows its files: certificates that are renewed under the same name, and
    a changed list of client authorities, apply to connections that begin later.

    Each change makes a new context, since an existing one can't forget an authority, and half a change would break it.
    A certificate that was removed stays in use; without the file of client authorities, no client gets in.
    Raises `StartError` if a file can't be used at the start.
    """

    def __init__(self, config: ServerTlsConfig, owner: str) -> None:
        self._config = config
        self._owner = owner
        self._protocols: Sequence[str] = ("http/1.1",)
        files = (config.cert_file, config.key_file, config.client_ca_file)
        paths = [file for file in files if file is not None]
        self._files = Renewed(paths, self._make, f"{owner}.tls", "certificates", gone=self._without_authorities)

    def offer(self, protocols: Sequence[str]) -> None:
        """Sets the protocols that clients may choose from (ALPN), best first."""
        self._protocols = protocols
        self._files.current().set_alpn_protocols(list(protocols))

    def context(self) -> ssl.SSLContext:
        """The context for a connection that begins now."""
        return self._files.current()

    def _make(self) -> ssl.SSLContext:
        config = self._config
        context = self._empty()
        try:
            check_regular(config.cert_file, config.key_file, config.client_ca_file)
            # without the function OpenSSL would ask for a password at the terminal
            context.load_cert_chain(config.cert_file, config.key_file, lambda: "")
            if config.client_ca_file is not None:
                context.load_verify_locations(config.client_ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
                context.options |= ssl.OP_NO_TICKET
                context.num_tickets = 0
                context.sslobject_class = _FullHandshakes
        except OSError as e:
            raise StartError(f"{self._owner}.tls: the certificate files can't be used: {e}") from e
        return context

    def _empty(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL 1.1 would let clients ask for it
        context.set_alpn_protocols(list(self._protocols))
        return context

    def _without_authorities(self) -> ssl.SSLContext:
        """A context for which no client's certificate is good. Raises `ValueError` if the file of authorities is there,
        or none is configured."""
        config = self._config
        if config.client_ca_file is None or config.client_ca_file.exists():
            raise ValueError("no authority was removed")
        context = self._empty()
        context.verify_mode = ssl.CERT_REQUIRED
        with suppress(OSError):
            check_regular(config.cert_file, config.key_file)
            context.load_cert_chain(config.cert_file, config.key_file, lambda: "")
        return context


def server_tls(config: ServerTlsConfig | None, owner: str) -> ServerTls | None:
    """TLS as configured, None without. Raises `StartError` if a file can't be used."""
    return ServerTls(config, owner) if config is not None else None
