"""The option `credentials` of sinks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from gateway_options.addresses import comma_separated
from gateway_options.client_tls import ClientTlsConfig
from gateway_options.url import Url, in_the_clear
from gateway_serving.limits import Seconds
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from gateway_core.contract.component import Config
from gateway_core.contract.config_node import Place
from gateway_core.contract.needed_files import FileFault, unreadable

from .signing_config import HmacSenderConfig, WebhooksSenderConfig

_SCOPE = re.compile(r"[!#-\[\]-~]+")  # RFC 6749 section 3.3


def _scope(text: str) -> str:
    if not _SCOPE.fullmatch(text):
        raise ValueError("a scope has no spaces, quotes or backslashes (RFC 6749 section 3.3)")
    return text


def _token_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.username is not None or parts.fragment:
        raise ValueError("a token URL has no user, password or fragment: use `client_id` and `client_secret`")
    return text


def _filled(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value():
        raise ValueError("the secret is empty")
    return secret


Secret = Annotated[SecretStr, AfterValidator(_filled)]
"""A secret; it is never shown."""
TokenUrl = Annotated[Url, AfterValidator(_token_url)]
Scope = Annotated[str, AfterValidator(_scope)]


class OAuth2Config(Config):
    """Access tokens by the client credentials grant of OAuth 2 (RFC 6749 section 4.4). A token is kept, and renewed in
    the background when four fifths of its time are over. While there is none, events wait, and no attempt counts."""

    token_url: TokenUrl
    """The authorization server's token endpoint."""
    client_id: Annotated[str, Field(min_length=1)]
    """The client's id."""
    client_secret: Secret
    """Its secret: `${secret:NAME}`."""
    scopes: Annotated[list[Scope], BeforeValidator(comma_separated)] = []
    """The scopes to ask for."""
    audience: str | None = None
    """The subscriber that the token is for, as a parameter `audience` (Auth0, Okta, Keycloak)."""
    resource: Url | None = None
    """The subscriber that the token is for, as a parameter `resource` (RFC 8707)."""
    client_authentication: Literal["basic", "post"] = "basic"
    """How the client proves itself to the token endpoint: `basic` in the header `Authorization`, `post` in the body."""
    timeout_s: Seconds = 10.0
    """How long a request for a token may take, in seconds."""
    tls: ClientTlsConfig = ClientTlsConfig()
    """Certificates for the token endpoint."""

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        if in_the_clear(self.token_url):
            yield ("token_url",), "the client's secret can be read on the way", "use https://"
        elif self.token_url.startswith("https:") and not self.tls.verify:
            yield ("tls", "verify"), "whoever answers gets the client's secret", "set `ca_file` instead"


class BearerFileConfig(Config):
    """A bearer token in a file, such as a projected service account token of Kubernetes. The file is read again when it
    changes."""

    path: Path
    """The file. White space around the token is ignored."""
    audience: str | None = None
    """The subscriber that the token is for. A token that is not a JWT with this `aud` is not sent."""

    def file_faults(self) -> Iterator[FileFault]:
        """See `gateway_core.contract.needed_files.NeedsFiles`."""
        if text := unreadable(self.path):
            yield FileFault("path", text)


class BearerConfig(Config):
    """What a client proves itself with: exactly one of these."""

    kinds: ClassVar[tuple[str, ...]] = ("oauth2", "bearer_file")

    oauth2: OAuth2Config | None = None
    """An access token from an OAuth 2 authorization server."""
    bearer_file: BearerFileConfig | None = None
    """A bearer token from a file."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in self.kinds) != 1:
            names = [f"`{kind}`" for kind in self.kinds]
            raise ValueError(f"write exactly one of {', '.join(names[:-1])} and {names[-1]}")
        return self

    @property
    def bearer(self) -> bool:
        """Whether it is a bearer token."""
        return self.oauth2 is not None or self.bearer_file is not None

    @property
    def audience(self) -> str | None:
        """The audience of the token, if the config names one."""
        bearer = self.oauth2 or self.bearer_file
        return bearer.audience if bearer is not None else None


class CredentialsConfig(BearerConfig):
    """What a sink proves itself with: exactly one of these."""

    kinds: ClassVar[tuple[str, ...]] = (*BearerConfig.kinds, "hmac", "standard_webhooks")

    hmac: HmacSenderConfig | None = None
    """A signature of the body with a shared secret."""
    standard_webhooks: WebhooksSenderConfig | None = None
    """A signature of the body as Standard Webhooks says."""

    def header_names(self) -> list[str]:
        """The header fields that they set, in lower case."""
        if self.hmac is not None:
            return [name for name in (self.hmac.header, self.hmac.timestamp_header) if name]
        if self.standard_webhooks is not None:
            return [f"{self.standard_webhooks.header_prefix}{word}" for word in ("id", "timestamp", "signature")]
        return ["authorization"]
