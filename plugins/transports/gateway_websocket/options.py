"""The options that sources and sinks share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from gateway_http.credentials.config import BearerConfig
from gateway_options.client_tls import ClientTlsConfig
from gateway_options.headers import Headers
from gateway_options.url import in_the_clear
from gateway_serving.access import Token, WebOrigin
from gateway_serving.address import leads_to
from gateway_serving.hosts import HostName
from gateway_serving.limits import Bytes, ListenerLimits, Seconds
from gateway_serving.listen import Listen, UrlPath
from gateway_serving.tls import ServerTlsConfig
from pydantic import AfterValidator, model_validator

from gateway_core.contract.component import Config
from gateway_core.contract.config_node import Place

Acknowledge = Literal["required", "optional", "off"]


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("ws", "wss") or not parts.hostname or parts.fragment:
        raise ValueError("write ws://HOST[:PORT]/PATH or wss://…, without a fragment")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("the URL contains a character that must be percent-encoded")
    if parts.port == 0:
        raise ValueError("port 0 is not a port to connect to")
    if parts.username is not None:
        raise ValueError("a user and password don't belong here: use `token` or `headers`")
    return text


Url = Annotated[str, AfterValidator(_url)]

_LISTEN_ONLY = ("path", "origins", "hosts", "tls", "limits")
_URL_ONLY = ("headers", "client_tls", "credentials")


class WebSocketConfig(Config):
    """One end of WebSocket connections: with `listen` it accepts them, with `url` it opens one."""

    listen: Listen | None = None
    """Address to listen on, `HOST:PORT`. Port 0 picks a free port. Sources and sinks of this transport with the same
    `listen` share the socket and differ by path."""
    path: UrlPath = "/"
    """With `listen`: the exact path of connections. The query string is ignored."""
    url: Url | None = None
    """The server to connect to, `ws://` or `wss://`."""
    acknowledge: Acknowledge | None = None
    """Whether events are acknowledged, by the subprotocol `cloudevents.json+ack.tidegate.dev`. `required` refuses
    connections without it. `optional`, the default, prefers it, and otherwise takes the plain `cloudevents.json`, whose
    events can get lost with a connection. `off` uses only that one."""
    token: Token | None = None
    """A bearer token (`Authorization: Bearer …`): with `listen` clients must send it (401), with `url` it is sent."""
    credentials: BearerConfig | None = None
    """With `url`: what this end proves itself with in the opening handshake, instead of `token`. A connection stays
    open when its token ends."""
    origins: list[WebOrigin] = []
    """With `listen`: the web pages that may connect, by the `Origin` header of browsers, such as
    `https://app.example.com`; `*` for all. By default none may. Clients that send no `Origin` always may."""
    hosts: list[HostName] = []
    """With `listen`: host names by which clients call this listener, without a port; `*.` at the beginning stands for
    any labels, `*` alone for every name. Requests for other names get 421. Without it, a listener on a loopback address
    answers to `localhost` and loopback addresses, and one that other machines reach answers to every name."""
    headers: Headers = {}
    """With `url`: additional header fields of the opening handshake."""
    tls: ServerTlsConfig | None = None
    """With `listen`: serves `wss://`."""
    client_tls: ClientTlsConfig = ClientTlsConfig()
    """With `url`: certificates for `wss://`."""
    limits: ListenerLimits = ListenerLimits()
    """With `listen`: limits for clients."""
    max_message_bytes: Bytes = 1024 * 1024
    """Maximum size of a message, in bytes. A longer one ends its connection (1009)."""
    ping_interval_s: Seconds = 20.0
    """How long a connection may be silent before a ping is sent, in seconds."""
    ping_timeout_s: Seconds = 20.0
    """How long the other end may take to answer a ping, in seconds. Then the connection is closed."""
    connect_timeout_s: Seconds = 10.0
    """With `url`: timeout for a new connection and its handshake, in seconds."""

    @model_validator(mode="after")
    def _one_end(self) -> WebSocketConfig:
        if (self.listen is None) == (self.url is None):
            raise ValueError("write either `listen`, to accept connections, or `url`, to open one")
        other, names = ("listen", _LISTEN_ONLY) if self.listen is None else ("url", _URL_ONLY)
        if wrong := [name for name in names if name in self.model_fields_set]:
            raise ValueError(f"`{wrong[0]}` has a meaning only with `{other}`")
        if self.credentials is not None:
            if self.token is not None:
                raise ValueError("`token` and `credentials` are two tokens: write one of them")
            if any(name.lower() == "authorization" for name in self.headers):
                raise ValueError("`credentials` sets `Authorization`: leave it out of `headers`")
        return self

    def credential_warnings(self) -> Iterator[tuple[Place, str, str]]:
        """Warnings of tokens that others can read on the way."""
        if self.credentials is not None and self.url is not None:
            if in_the_clear(self.url):
                yield ("credentials",), "the token can be read on the way, and used by others", "use wss://"
            elif self.url.startswith("wss:") and not self.client_tls.verify:
                yield ("client_tls", "verify"), "whoever answers gets the token", "set `ca_file` instead"

    @property
    def closed(self) -> bool:
        """See `gateway_access.exposure.LettingIn`."""
        return self.token is not None or (self.tls is not None and self.tls.client_ca_file is not None)

    @property
    def acknowledged(self) -> Acknowledge:
        """`acknowledge`, or its default."""
        return self.acknowledge or "optional"

    def receives(self, url: str) -> bool:
        """Whether a connection to this URL comes in here."""
        if self.listen is None or not url.startswith(("ws://", "wss://")):
            return False
        return leads_to(url.replace("ws", "http", 1), self.listen, self.path)
