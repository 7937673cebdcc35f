"""Options of the `http` transport."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gateway_core.asgi import checked_path
from gateway_core.component import CodecRef, Config
from gateway_core.serving.limits import Bytes, ListenerLimits, Seconds

_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]/\s]*)):(?P<port>\d{1,5})")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED = {"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect"}


def split_listen(text: str) -> tuple[str, int]:
    """`HOST:PORT` as (host, port); an IPv6 host stands in brackets, no host means all addresses."""
    found = _LISTEN.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise ValueError("write HOST:PORT, an IPv6 host in brackets")
    return found["v6"] or found["host"] or "", int(found["port"])


def _listen(text: str) -> str:
    split_listen(text)
    return text


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write http://HOST[:PORT]/PATH or https://…")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("the URL holds a character that must be percent-encoded")
    if parts.port == 0:
        raise ValueError("port 0 can't be connected to")
    return text


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED or name.lower().startswith("ce-"):
            raise ValueError(f"{name!r} can't be set: not a header name, or one that belongs to the gateway")
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of {name!r} holds a character that HTTP does not allow")
    return headers


Listen = Annotated[str, AfterValidator(_listen)]
UrlPath = Annotated[str, AfterValidator(checked_path)]
Url = Annotated[str, AfterValidator(_url)]
Headers = Annotated[dict[str, str], AfterValidator(_headers)]


class ServerTlsConfig(Config):
    """The server's side of TLS."""

    cert_file: Path
    """The certificate chain, PEM."""
    key_file: Path
    """Its private key, PEM."""
    client_ca_file: Path | None = None
    """Certificate authorities (PEM) of which a client must show a certificate; without it clients need none."""


class LimitsConfig(ListenerLimits):
    """How much one client may ask for, and all of them together. What goes beyond is answered and the connection
    closed."""

    max_body_bytes: Bytes = 1024 * 1024
    """The longest body, in bytes (413)."""


class HttpSourceConfig(Config):
    """Takes events by HTTP: `POST` to the path. Sources with one `listen` share the socket, by path."""

    listen: Listen = "127.0.0.1:8080"
    """Address to listen on, `HOST:PORT`. Port 0 takes a free one, shared with no other source."""
    path: UrlPath = "/"
    """The exact path that events are posted to; a query is ignored."""
    codec: CodecRef = CodecRef("cloudevents")
    """How requests become events."""
    server: Literal["native", "hypercorn"] = "native"
    """The HTTP engine: `native` is the fast one (HTTP/1.1); `hypercorn` hands connections that begin with HTTP/2 to
    Hypercorn, and is the native one for all others."""
    tls: ServerTlsConfig | None = None
    """Serves HTTPS."""
    limits: LimitsConfig = LimitsConfig()
    """How much one client may ask for."""


class ClientTlsConfig(Config):
    """The client's side of TLS."""

    ca_file: Path | None = None
    """Certificate authorities to trust (PEM) instead of the system's."""
    cert_file: Path | None = None
    """A client certificate chain, PEM."""
    key_file: Path | None = None
    """Its private key, PEM, where it is not in `cert_file`."""
    verify: bool = True
    """False trusts any certificate and any host name: for tests only."""


class HttpSinkConfig(Config):
    """Delivers events by HTTP: one `POST` each."""

    url: Url
    """Where events go, `http://` or `https://`. User and password in it are sent as basic authentication."""
    codec: CodecRef = CodecRef("cloudevents")
    """How events become requests."""
    client: Literal["native", "httpx"] = "native"
    """The HTTP engine: `native` is the fast one (HTTP/1.1); `httpx` also speaks HTTP/2 and uses the environment's
    proxies."""
    headers: Headers = {}
    """More header fields for each request, such as `Authorization`."""
    max_connections: Annotated[int, Field(ge=1, le=10_000)] = 256
    """The most connections at once; as many are kept open when idle. The native client has one request under way on
    each, so no more attempts are under way than this, whatever `max_in_flight` says."""
    connect_timeout_s: Seconds = 10.0
    """How long a new connection may take, in seconds."""
    tls: ClientTlsConfig = ClientTlsConfig()
    """Certificates for `https://`."""
    probe: bool = False
    """Asks with `OPTIONS` before the first event is sent. Whatever the answer is, events are sent."""
