"""Options that every client of NATS needs."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from gateway_options.addresses import Listed
from gateway_options.client_tls import ClientTlsConfig
from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.component import Config

_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/\s,@?#]+)(?::(\d{1,5}))?")
_SUBJECT = re.compile(r"[^\s.*>\x00-\x1f\x7f]+(\.[^\s.*>\x00-\x1f\x7f]+)*")
_TOKEN = r"(?:\*|[^\s.*>\x00-\x1f\x7f]+)"
_FILTER = re.compile(rf"(?:{_TOKEN}\.)*(?:{_TOKEN}|>)")
_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,200}")
_NOT_IN_NAMES = re.compile(r"[\s.*>/\\\x00-\x1f\x7f]")
PORT = 4222


def _server(text: str) -> str:
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "nats", text
    if "@" in rest:
        raise ValueError("has credentials; put them into `user` and `password`, or `token`")
    place = _HOST.fullmatch(rest.rstrip("/"))
    if scheme not in ("nats", "tls") or place is None or not 0 < int(place[2] or PORT) < 65536:
        raise ValueError("must be nats://HOST:PORT or tls://HOST:PORT, with an IPv6 host in brackets")
    return f"{scheme}://{place[1]}:{place[2] or PORT}"


def subject(text: str) -> str:
    """Returns the subject. Raises `ValueError` unless it is one to publish to."""
    if not _SUBJECT.fullmatch(text) or len(text.encode()) > 512:
        raise ValueError("a subject is made of tokens with dots between them, without spaces, `*` and `>`")
    return text


def _filter(text: str) -> str:
    if not _FILTER.fullmatch(text) or len(text.encode()) > 512:
        raise ValueError("a subject is made of tokens with dots between them; `*` stands for one, a last `>` for many")
    return text


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("a name has no spaces, dots, slashes, `*` and `>`, and at most 200 characters")
    return text


Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Name = Annotated[str, AfterValidator(_name)]
Subject = Annotated[str, AfterValidator(subject)]
SubjectFilter = Annotated[str, AfterValidator(_filter)]
SubjectFilters = Listed[SubjectFilter]
Server = Annotated[str, AfterValidator(_server)]


def name_from(*parts: str) -> str:
    """A name for a stream or a consumer made of these parts. If they have characters that it can't have, these are
    replaced, and a hash keeps different names apart."""
    text = "_".join(part for part in parts if part)
    if _NAME.fullmatch(text):
        return text
    return f"{_NOT_IN_NAMES.sub('_', text)[:180]}_{sha256(text.encode()).hexdigest()[:8]}"


class NatsConfig(Config):
    """The connection to NATS."""

    servers: Listed[Server] = ["nats://127.0.0.1:4222"]
    """One or more servers, `nats://HOST:PORT` or `tls://HOST:PORT`, as a list or separated by commas."""
    user: str | None = None
    """The user name."""
    password: str | None = None
    """The password; use `${secret:NAME}`."""
    token: str | None = None
    """A token in place of user and password; use `${secret:NAME}`."""
    nkey_file: Path | None = None
    """A file with the seed of an NKey. It needs the Python package `nkeys`."""
    credentials_file: Path | None = None
    """A `.creds` file, with a JWT and the seed of an NKey. It needs the Python package `nkeys`."""
    tls: ClientTlsConfig | None = None
    """Connects with TLS; `tls: {}` trusts the system's certificate authorities. A server that does not offer TLS is
    refused."""
    tls_first: bool = False
    """Whether TLS begins before the server's first message (`handshake_first` in the server's config)."""
    client_name: str = "tidegate"
    """The name of this client in the server's monitoring."""
    inbox_prefix: Subject = "_INBOX"
    """The first tokens of the subjects on which answers arrive, for accounts that may not use `_INBOX`."""
    domain: Name | None = None
    """The JetStream domain; by default that of the server."""
    request_timeout_s: Seconds = 5.0
    """The time limit for connecting and for a request to JetStream, in seconds."""

    @model_validator(mode="after")
    def _one_login(self) -> NatsConfig:
        if (self.user is None) != (self.password is None):
            raise ValueError("`user` and `password` belong together")
        given = [self.user, self.token, self.nkey_file, self.credentials_file]
        if sum(one is not None for one in given) > 1:
            raise ValueError("set one of `user`, `token`, `nkey_file` and `credentials_file`")
        return self

    @property
    def api_prefix(self) -> str:
        """The first tokens of JetStream's API."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"

    @property
    def secure(self) -> bool:
        """Whether every connection must use TLS."""
        return self.tls is not None or self.tls_first or any(s.startswith("tls://") for s in self.servers)


def with_url(field: str) -> Any:
    """A validator for `nats://HOST:PORT/SUBJECT` as `servers` and `field`."""

    def parse(value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("url"), str):
            return value
        parts = urlsplit(value["url"])
        subject = parts.path.strip("/")
        if parts.scheme not in ("nats", "tls") or not parts.netloc or not subject or parts.query or "/" in subject:
            raise ValueError("must be nats://HOST:PORT/SUBJECT")
        rest = {k: v for k, v in value.items() if k != "url"}
        return {"servers": f"{parts.scheme}://{parts.netloc}", field: subject, **rest}

    return model_validator(mode="before")(parse)
