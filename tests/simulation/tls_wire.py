"""TLS in the simulated network: certificates, and the world's ends of connections that speak it.

OpenSSL's random numbers can't be drawn from a seed, so the bytes of two runs differ. Their lengths do not: all keys are
Ed25519, whose signatures have one length, and the simulated servers send no session tickets. A history has nothing of
what is encrypted, so runs of one plan stay equal. The gateway's own listener does send tickets, whose length OpenSSL
draws; they come in one piece where the network has jitter (`tls_plan.py`).

The gateway's side is asyncio's own `SSLProtocol`, from which uvloop's is made.
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from .network import END, RESET, Connection, Endpoint
from .plan import Fault

SINKS = 9
"""The serial number of the servers' certificate; those of the gateway's listener count from `LISTENER`."""
LISTENER = 10
NAMES = (
    "localhost",
    *(f"{dead}{name}" for dead in ("", "dead-") for name in ("t1", "t2", "t3", "t4", "added", "b1")),
    "dead",
)
_FROM, _TO = datetime.datetime(2020, 1, 1), datetime.datetime(2120, 1, 1)


def _key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(serial: int, *extensions: x509.ExtensionType) -> bytes:
    builder = x509.CertificateBuilder(
        _name("authority"), _name(str(serial)), _key(str(serial)).public_key(), serial, _FROM, _TO
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(_key("authority"), None).public_bytes(Encoding.PEM)


@cache
def _authority() -> bytes:
    builder = x509.CertificateBuilder(
        _name("authority"), _name("authority"), _key("authority").public_key(), 1, _FROM, _TO
    )
    builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
    return builder.sign(_key("authority"), None).public_bytes(Encoding.PEM)


@cache
def _pair(serial: int) -> tuple[bytes, bytes]:
    """A certificate for all names, and its key."""
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in NAMES])
    key = _key(str(serial)).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return _signed(serial, names), key


@cache
def _client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=_authority().decode())
    return context


class Certificates:
    """The files of one run, in a folder that the config names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "authority.pem").write_bytes(_authority())
        certificate, key = _pair(SINKS)
        (folder / "sinks.pem").write_bytes(certificate)
        (folder / "sinks.key").write_bytes(key)
        self.renew(0)
        self._servers = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._servers.load_cert_chain(folder / "sinks.pem", folder / "sinks.key")
        self._servers.num_tickets = 0

    def renew(self, number: int, *, half: bool = False) -> None:
        """The listener's certificate becomes this one; `half`: without its key, which is to come."""
        certificate, key = _pair(LISTENER + number)
        self._replace("listener.pem", certificate)
        if not half:
            self._replace("listener.key", key)

    def _replace(self, name: str, content: bytes) -> None:
        new = self.folder / "new"
        new.write_bytes(content)
        new.replace(self.folder / name)

    def server(self, inner: Endpoint, faults: Mapping[str, Fault]) -> Secured:
        """A server's end of a connection."""
        return Secured(inner, self._servers, faults)

    def client(self, inner: Endpoint, greeted: Callable[[int], None]) -> Secured:
        """A sender's end of a connection. `greeted` gets the number of the listener's certificate."""
        return Secured(inner, _client_context(), {}, greeted)


def hello() -> bytes:
    """How a client begins."""
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        _client_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


class Secured:
    """An end of a connection (`network.Endpoint`) that speaks TLS for an end that speaks in clear, to which it is the
    connection. `faults` are those of the server that last; a client has `greeted`."""

    def __init__(
        self,
        inner: Endpoint,
        context: ssl.SSLContext,
        faults: Mapping[str, Fault],
        greeted: Callable[[int], None] | None = None,
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._greeted = greeted
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = None if greeted is None else "localhost"
        self._tls = context.wrap_bio(self._in, self._out, server_side=greeted is None, server_hostname=name)
        self._shaken = self._over = False
        self._read = 0  # bytes of the handshake
        self._connection: Any = None

    # -- network.Endpoint -------------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """See `network.Endpoint`."""
        self._connection = connection
        if self._greeted is None:
            self._inner.opened(self)  # type: ignore[arg-type]
        else:
            self._shake()

    def received(self, data: bytes) -> None:
        """See `network.Endpoint`."""
        if self._over:
            return
        if not self._shaken:
            if "tls-silent" in self._faults:
                return
            self._read += len(data)
            cut = self._faults.get("tls-handshake")
            if cut is not None and self._read > cut.amount:
                self._break(reset=cut.amount % 2 == 1)
                return
        self._in.write(data)
        if self._shaken or self._shake():
            self._take()

    def ended(self, how: str) -> None:
        """See `network.Endpoint`."""
        if self._connection is None or not self._over:
            self._over = True
            self._inner.ended(how)

    # -- TLS --------------------------------------------------------------------------------------------------------

    def _shake(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError:
            self._flush()
            self._break(reset=False)
            return False
        self._flush()
        self._shaken = True
        if self._greeted is not None:
            self._greeted(int(str((self._tls.getpeercert() or {})["serialNumber"]), 16) - LISTENER)
            self._inner.opened(self)  # type: ignore[arg-type]
        return True

    def _take(self) -> None:
        while not self._over:
            try:
                data = self._tls.read(65536)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:
                self._break(reset=True)
                return
            if not data:
                self._over = True
                self._flush()
                self._inner.ended(END)
                self._connection.end()
                return
            self._inner.received(data)
        self._flush()

    def _flush(self) -> None:
        if data := self._out.read():
            self._connection.send(data)

    def _break(self, *, reset: bool) -> None:
        self._over = True
        self._inner.ended(RESET)
        self._connection.reset() if reset else self._connection.end()

    # -- network.Connection, for the inner end ------------------------------------------------------------------------

    @property
    def life(self) -> int:
        """As of the connection."""
        return int(self._connection.life)

    @property
    def heard(self) -> Any:
        """As of the connection."""
        return self._connection.heard

    @heard.setter
    def heard(self, call: Callable[[int], None]) -> None:
        self._connection.heard = call

    def send(self, data: bytes) -> None:
        """As of the connection."""
        if self._shaken and not self._connection.up.closed:
            for start in range(0, len(data), 16_384):
                self._tls.write(data[start : start + 16_384])
            self._flush()

    def mark(self, number: int) -> None:
        """As of the connection."""
        self._connection.mark(number)

    def end(self) -> None:
        """Says that it ends, unless a fault is that it does not."""
        if self._shaken and "tls-cut" not in self._faults and not self._connection.up.closed:
            with suppress(ssl.SSLError):  # the other side has not said so yet
                self._tls.unwrap()
            self._flush()
        self._connection.end()

    def reset(self) -> None:
        """As of the connection."""
        self._over = True
        self._connection.reset()

    def stall(self, until: float) -> None:
        """As of the connection."""
        self._connection.stall(until)
