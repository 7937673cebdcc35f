"""Verifies tokens: JSON Web Tokens in the compact form (RFC 7519), with the advice of RFC 8725.

What is cheap is checked first, so that most wrong tokens cost no computation with keys. Keys come from the configured
issuer alone: what a token says about keys (`jku`, `jwk`, `x5u`, `x5c`) is ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from anyio.abc import TaskGroup
from gateway_access.subjects import is_reserved
from joserfc.errors import JoseError
from joserfc.jws import CompactSignature, extract_compact, validate_compact

from gateway_core.contract.clock import Clock
from gateway_core.contract.errors import TidegateError

from .config import OidcConfig
from .issuer import Issuer, KeyFile, KeySource
from .keys import Algorithms, VerificationKey
from .keystore import KeyStore

_MOST_SUBJECT = 1024  # characters


class TokenRejected(TidegateError):
    """A token is not valid here. The text is one plain sentence, which may be shown to whoever sent the token, and
    holds nothing of it."""


class Verified(NamedTuple):
    """A valid token: its `claims`, its `subject`, the end of its validity (`until`, Unix time in seconds, with clock
    skew), and the id of the key that it is signed with."""

    claims: Mapping[str, Any]
    subject: str
    until: float
    key: str


class TokenVerifier:
    """Verifies the tokens of one issuer, as a config says. `owner` is named in log lines. `dropped` is told of the ids
    of all current keys when some are gone: what was verified with others is no longer valid."""

    def __init__(
        self,
        config: OidcConfig,
        clock: Clock,
        owner: str,
        dropped: Callable[[frozenset[str]], None] = lambda ids: None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._algorithms = Algorithms(config.algorithms)
        self._audience = frozenset(config.audience)
        self._issuer = Issuer(config, owner) if config.jwks_file is None else None
        self.store = KeyStore(
            self._issuer or _file(config.jwks_file, owner),
            self._algorithms,
            clock,
            owner,
            refresh_s=config.refresh_s,
            max_age_s=config.keys_max_age_s,
            timeout_s=config.timeout_s,
            dropped=dropped,
            trust=_trust(config),
        )

    async def start(self, tasks: TaskGroup) -> None:
        """Begins to fetch keys. Raises `StartError` if a file of ours can't be used; the issuer may be away."""
        await self.store.start(tasks)

    async def stop(self) -> None:
        """Stops fetching keys."""
        await self.store.stop()

    async def metadata(self) -> Mapping[str, Any]:
        """What the issuer says about itself (OpenID Connect Discovery 1.0 section 3), such as its endpoints. Raises
        `gateway_oidc.issuer.IssuerFault`."""
        if self._issuer is None:
            return {"issuer": self._config.issuer}
        return await self._issuer.metadata()

    def verify(self, token: bytes) -> Verified | Awaitable[Verified]:
        """The claims of a token, or what returns them once its key was looked for. Raises `TokenRejected`, and
        `Overloaded` if the issuer's keys are not available."""
        signed = self._read(token)
        claims, subject, until = self._claims(signed.payload)
        header = signed.protected
        kid, algorithm = header.get("kid"), header["alg"]
        if self.store.usable and (keys := self.store.keys.fitting(kid, algorithm)):
            return Verified(claims, subject, until, self._signer(signed, keys))
        return self._later(signed, kid, algorithm, Verified(claims, subject, until, ""))

    async def _later(self, signed: CompactSignature, kid: str | None, algorithm: str, found: Verified) -> Verified:
        store = self.store

        def known() -> bool:
            return store.usable and bool(store.keys.fitting(kid, algorithm))

        await store.look_for(kid, known)
        keys = store.keys.fitting(kid, algorithm) if store.usable else ()
        return found._replace(key=self._signer(signed, keys))

    def _read(self, token: bytes) -> CompactSignature:
        if len(token) > self._config.max_token_bytes:
            raise TokenRejected("the token is too long")
        try:
            signed = extract_compact(token, registry=self._algorithms)
            header = signed.protected
            wrong = "crit" in header or "b64" in header  # extensions that must be understood (RFC 7515 section 4.1.11)
            wrong = wrong or not isinstance(header.get("kid", ""), str) or not isinstance(header["alg"], str)
        except Exception as e:  # the library raises all sorts for nonsense
            raise TokenRejected("the token is not a signed JSON Web Token") from e
        if wrong:
            raise TokenRejected("the token's header is not supported")
        if not _is_for_access(header.get("typ")):
            raise TokenRejected("the token is of a kind that proves no sender")
        if header["alg"] not in (self._algorithms.allowed or ()):
            raise TokenRejected("the token is signed with an algorithm that is not allowed")
        return signed

    def _claims(self, payload: bytes) -> tuple[dict[str, Any], str, float]:
        try:
            claims = msgspec.json.decode(payload, type=dict[str, Any])
        except (msgspec.DecodeError, ValueError, RecursionError) as e:
            raise TokenRejected("the token is not a signed JSON Web Token") from e
        if claims.get("iss") != self._config.issuer:
            raise TokenRejected("the token is from another issuer")
        audience = claims.get("aud")
        if not any(isinstance(a, str) and a in self._audience for a in _items(audience)):
            raise TokenRejected("the token is for another audience")
        until = self._times(claims)
        if claims.get("cnf") is not None:  # RFC 7800: whoever stole it must not be able to use it as a bearer token
            raise TokenRejected("the token is bound to a key of its sender, which is not supported: use a bearer token")
        for name, wanted in self._config.claims.items():
            if not _has(claims.get(name), wanted, name):
                raise TokenRejected("the token lacks a claim that is required")
        return claims, self._subject(claims), until

    def _times(self, claims: Mapping[str, Any]) -> float:
        """Until when the token is valid (RFC 7519 sections 4.1.4 to 4.1.6)."""
        now, skew = self._clock.now_ns() / 1e9, self._config.clock_skew_s
        end = _date(claims, "exp")
        if end is None:
            raise TokenRejected("the token does not say when it expires")
        if end + skew <= now:
            raise TokenRejected("the token has expired")
        for name in ("nbf", "iat"):
            if (begin := _date(claims, name)) is not None and begin - skew > now:
                raise TokenRejected("the token is not valid yet")
        return end + skew

    def _subject(self, claims: Mapping[str, Any]) -> str:
        subject = claims.get(self._config.subject)
        if not isinstance(subject, str) or not 0 < len(subject) <= _MOST_SUBJECT or not subject.isprintable():
            raise TokenRejected("the token has no usable subject")
        if subject != subject.strip():  # in a log nobody could tell it from another
            raise TokenRejected("the token has no usable subject")
        if self._config.subject == "email" and claims.get("email_verified") is not True:
            raise TokenRejected("the token's subject is an address that is not verified")
        subject = self._config.subject_prefix + subject
        if is_reserved(subject):
            raise TokenRejected("the token's subject could be taken for one of another authenticator")
        return subject

    def _signer(self, signed: CompactSignature, keys: Sequence[VerificationKey]) -> str:
        """The id of the key that the token is signed with."""
        if not keys:
            raise TokenRejected("the token is signed with a key that the issuer does not publish")
        for key in keys:
            try:
                if validate_compact(signed, key.key, registry=self._algorithms):
                    return key.id
            except (JoseError, ValueError):
                continue
        raise TokenRejected("the token's signature is wrong")


def _is_for_access(kind: Any) -> bool:
    """Whether a token of this `typ` may prove a sender. Issuers sign other things, too, such as logout tokens, and say
    so (RFC 8725 section 3.11); access tokens are `at+jwt` (RFC 9068), and most have no type or just `JWT`."""
    if not isinstance(kind, str):
        return kind is None
    name = kind.lower().removeprefix("application/")
    return name == "at+jwt" or not name.endswith("+jwt")


def _trust(config: OidcConfig) -> Hashable:
    files = config.jwks_file, config.ca_file, config.bearer_file
    return config.issuer, config.jwks_url, files, config.allow_http, frozenset(config.algorithms)


def _file(path: Path | None, owner: str) -> KeySource:
    assert path is not None
    return KeyFile(path, owner)


def _date(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise TokenRejected("the token has a time that is no number of seconds")
    return float(value)


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else (value,)


def _has(value: Any, wanted: Sequence[str | bool | int], name: str) -> bool:
    # RFC 8693 section 4.2: `scope` is a list of words
    found = value.split(" ") if name == "scope" and isinstance(value, str) else _items(value)
    return any(type(v) is type(w) and v == w for v in found for w in wanted)
