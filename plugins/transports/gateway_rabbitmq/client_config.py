"""Options that every client of a RabbitMQ server needs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from gateway_options.addresses import Listed
from gateway_options.client_tls import ClientTlsConfig
from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.component import Config

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/\s,@]+)(?::(\d{1,5}))?")


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if found is None or not 0 < int(found[2] or 1) < 65536:
        raise ValueError("must be HOST or HOST:PORT, with an IPv6 host in brackets")
    return text


def _short(text: str) -> str:
    if len(text.encode()) > 255 or not text.isprintable():
        raise ValueError("may have at most 255 bytes, and no control characters")
    return text


Server = Annotated[str, AfterValidator(_server)]
Name = Annotated[str, AfterValidator(_short), Field(min_length=1)]
ShortText = Annotated[str, AfterValidator(_short)]
Arguments = dict[Name, bool | int | str]


def _with_url(value: Any) -> Any:
    """`amqp://HOST:PORT/VHOST?option=value` as `server`, `vhost`, `tls` and the options."""
    if not isinstance(value, dict) or not isinstance(value.get("url"), str):
        return value
    parts = urlsplit(value["url"])
    if parts.scheme not in ("amqp", "amqps") or not parts.netloc or parts.fragment or "/" in parts.path[1:]:
        raise ValueError("must be amqp://HOST:PORT/VHOST or amqps://HOST:PORT/VHOST, with other options after `?`")
    if "@" in parts.netloc:
        raise ValueError("must have no user and password: set `username` and `password`")
    found: dict[str, Any] = {"server": parts.netloc}
    if parts.path[1:]:
        found["vhost"] = unquote(parts.path[1:])
    if parts.scheme == "amqps" and "tls" not in value:
        found["tls"] = {}
    if parts.scheme == "amqp" and value.get("tls") is not None:
        raise ValueError("must begin with amqps:// if `tls` is set")
    found.update(parse_qsl(parts.query, keep_blank_values=True))
    rest = {k: v for k, v in value.items() if k != "url"}
    if twice := sorted(found.keys() & rest.keys()):
        raise ValueError(f"has `{twice[0]}` too: set it once")
    return {**found, **rest}


class RabbitConfig(Config):
    """The connection to a server or cluster."""

    server: Listed[Server] = ["127.0.0.1:5672"]
    """The server, `HOST` or `HOST:PORT` (5672, with TLS 5671). Several (the nodes of a cluster) are separated by
    commas, and tried in turn."""
    vhost: Annotated[str, AfterValidator(_short)] = "/"
    """The virtual host."""
    username: Annotated[str, Field(min_length=1)] = "guest"
    """The user. RabbitMQ lets `guest` in from the same machine only."""
    password: str = "guest"
    """The password; use `${secret:NAME}`."""
    login: Literal["plain", "external"] = "plain"
    """`external` logs in with the client certificate in `tls` instead of user and password."""
    tls: ClientTlsConfig | None = None
    """Connects with TLS; `tls: {}` trusts the system's certificate authorities."""
    heartbeat_s: Annotated[int, Field(ge=0, le=3600)] = 30
    """How often each side shows that it is there, in seconds; a side that is silent for twice as long counts as gone.
    0 for never."""

    _url = model_validator(mode="before")(_with_url)

    @model_validator(mode="after")
    def _certificate(self) -> RabbitConfig:
        if self.login == "external" and (self.tls is None or self.tls.cert_file is None):
            raise ValueError("`login: external` needs `cert_file` in `tls`")
        return self

    @property
    def where(self) -> str:
        """The server and virtual host, without credentials, as a URL."""
        vhost = "" if self.vhost == "/" else f"/{self.vhost}"
        return f"{'amqp' if self.tls is None else 'amqps'}://{','.join(self.server)}{vhost}"
