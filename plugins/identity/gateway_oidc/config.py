"""The options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from gateway_access.subjects import is_reserved
from gateway_serving.hosts import is_loopback
from pydantic import BeforeValidator, Field, model_validator

from gateway_core.contract.component import Config
from gateway_core.contract.config_node import Place

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "Ed448", "EdDSA"
]
"""RFC 7518 section 3.1, RFC 8037 and RFC 9864. Only public keys: an issuer that publishes its keys signs with no other
kind, and a key for HMAC would make everyone who verifies an issuer."""

Type = Literal["app_user", "user", "service_account", "api_key", "system", "unauthenticated", "unknown"]
Seconds = Annotated[float, Field(gt=0, le=366 * 24 * 3600)]
Scalar = str | bool | int


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | bool | int) else value


def url_fault(url: str, allow_http: bool) -> str | None:
    """Why keys can't be fetched from a URL; None if they can."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as e:
        return f"is no URL: {e}"
    if parts.scheme not in ("https", "http") or not host:
        return "must be a URL that starts with https://"
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "must have no user, password or fragment"
    if parts.scheme == "http" and not allow_http and not is_loopback(host):
        return "must start with https://, because who can change the keys on their way can send as anyone"
    return None


class OidcConfig(Config):
    """Takes signed tokens (JWT) that an issuer of OpenID Connect or OAuth 2.0 issued, in the header `Authorization:
    Bearer …`. The sender's subject is the token's `sub`."""

    issuer: Annotated[str, Field(min_length=1)]
    """The issuer, exactly as its tokens say in `iss`. Its keys are found by discovery, at
    `<issuer>/.well-known/openid-configuration`, unless `jwks_url` or `jwks_file` says where they are."""
    audience: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        BeforeValidator(_as_list, json_schema_input_type=list[str] | str),
        Field(min_length=1),
    ]
    """The audiences that tokens may be for: at least one of these must be in `aud`."""
    jwks_url: str | None = None
    """Where the issuer's keys are (a JSON Web Key Set), for an issuer without discovery."""
    jwks_file: Path | None = None
    """The issuer's keys in a file, for a gateway that can't reach the issuer. A changed file takes effect within
    seconds."""
    algorithms: Annotated[list[Algorithm], Field(min_length=1)] = list(get_args(Algorithm))
    """The signature algorithms that are allowed."""
    clock_skew_s: Annotated[float, Field(ge=0, le=600)] = 30.0
    """The allowed difference between the clocks of issuer and gateway, in seconds."""
    claims: dict[
        str,
        Annotated[
            list[Scalar],
            BeforeValidator(_as_list, json_schema_input_type=list[Scalar] | Scalar),
            Field(min_length=1),
        ],
    ] = {}
    """Claims that a token must have, each with one value or several; any one of them matches. If the claim is a list,
    its items are compared; for `scope`, its words."""
    subject: Annotated[str, Field(min_length=1)] = "sub"
    """The claim that names the sender. Choose one that its users can't change themselves."""
    subject_prefix: str = ""
    """A prefix for the subject, to distinguish senders of several issuers (`keycloak:`). Without one,
    a subject in the form of another authenticator's (`key billing`, `CN=orders`) is refused."""
    type: Type | None = None
    """What kind of sender it is, for the attribute `authtype`. By default `service_account` for subjects that start
    with `system:serviceaccount:` (Kubernetes), else `user`."""
    max_token_bytes: Annotated[int, Field(ge=256, le=65536)] = 8192
    """The longest token, in bytes."""
    ca_file: Path | None = None
    """Certificate authorities (PEM) to trust for the issuer instead of the system's."""
    bearer_file: Path | None = None
    """A file with a token to fetch the keys with, read each time; Kubernetes asks for one:
    `/var/run/secrets/kubernetes.io/serviceaccount/token`."""
    allow_http: bool = False
    """Whether keys may be fetched without TLS from another machine. For tests only."""
    refresh_s: Seconds = 600.0
    """How often the keys are fetched. They are also fetched when a token names an unknown one."""
    keys_max_age_s: Seconds = 24 * 3600.0
    """How long the last keys are used while the issuer can't be reached. After that, requests get 503."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """The time limit for fetching the keys, and for a request that waits for them, in seconds."""

    def warnings(self) -> Iterator[tuple[Place, str, str]]:
        """See `Config`."""
        if self.jwks_file is not None and not self.jwks_file.is_file():
            text = f"there is no file {self.jwks_file}: the gateway would not start"
            yield ("jwks_file",), text, "write the issuer's keys (a JSON Web Key Set) there, or correct the path"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if is_reserved(f"{self.subject_prefix}x"):
            raise ValueError("`subject_prefix` begins subjects of another authenticator: use another, such as `login:`")
        if self.jwks_url is not None and self.jwks_file is not None:
            raise ValueError("has two places for keys: set `jwks_url` or `jwks_file`")
        if self.keys_max_age_s < self.refresh_s:
            raise ValueError("`keys_max_age_s` must be at least `refresh_s`, or there are times without keys")
        if self.jwks_file is not None:
            return self
        name, url = ("jwks_url", self.jwks_url) if self.jwks_url is not None else ("issuer", self.issuer)
        if (fault := url_fault(url, self.allow_http)) is not None:
            more = "; or set `jwks_url` or `jwks_file`" if name == "issuer" else ""
            raise ValueError(f"`{name}` {fault}{more}")
        if name == "issuer" and "?" in url:
            raise ValueError("`issuer` must have no query (OpenID Connect Discovery 1.0 section 3)")
        return self
