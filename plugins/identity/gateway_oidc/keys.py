"""An issuer's public keys: read from a JSON Web Key Set (RFC 7517), and found for a token.

Each key is used only for what it is meant for: its `use`, `key_ops` and `alg`, and the algorithms of its type and
curve.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

MOST_KEYS = 256
"""More keys in one set are a mistake."""
RSA_BITS = range(2048, 8193)
"""Shorter keys are weak (RFC 7518 section 3.3), longer ones take long to verify with."""
_TRIED = 4  # keys that are tried for one token: without `kid` several may fit
_EDWARDS = {"Ed25519", "Ed448"}
_TYPES = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


class KeySetFault(ValueError):
    """A text is no JSON Web Key Set."""


class Algorithms(JWSRegistry):
    """The algorithms that a config allows. Further header parameters are allowed, and ignored; those in `crit` are
    not."""

    max_header_length = 65536  # `max_token_bytes` is the limit
    max_payload_length = 65536
    max_signature_length = 65536

    def __init__(self, allowed: Collection[str]) -> None:
        super().__init__(algorithms=frozenset(allowed), strict_check_header=False)

    def get_alg(self, name: str) -> Any:
        """An allowed algorithm, without the library's warning about the name `EdDSA` (RFC 9864)."""
        if self.allowed is None or name not in self.allowed:
            raise JoseError("the algorithm is not allowed")
        return self.algorithms[name]


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key: its `kid`, "" for none, the `algorithms` it may be used with, and an `id` that is the same
    for the same key in a later set."""

    id: str
    kid: str
    algorithms: frozenset[str]
    key: Key


class KeySet:
    """The keys of one set that can verify tokens."""

    def __init__(self, keys: Sequence[VerificationKey]) -> None:
        self._keys = keys
        self.ids = frozenset(key.id for key in keys)
        self.kids = frozenset(key.kid for key in keys)

    def __iter__(self) -> Iterator[VerificationKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def fitting(self, kid: str | None, algorithm: str) -> Sequence[VerificationKey]:
        """The keys that a token with this header may be signed with. Without `kid`, all of the algorithm."""
        found = [k for k in self._keys if (kid is None or k.kid == kid) and algorithm in k.algorithms]
        return found[:_TRIED]


def read_key_set(text: bytes, algorithms: Algorithms) -> KeySet:
    """The usable keys of a JSON Web Key Set. Others are left out (RFC 7517 section 5), among them private and symmetric
    ones, which no issuer publishes on purpose. Raises `KeySetFault`."""
    try:
        document = _decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as e:
        raise KeySetFault("it is no JSON Web Key Set") from e
    if len(document.keys) > MOST_KEYS:
        raise KeySetFault(f"it has more than {MOST_KEYS} keys")
    return KeySet([key for entry in document.keys if (key := _read_key(entry, algorithms)) is not None])


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


_decode = msgspec.json.Decoder(_Document).decode


def _read_key(entry: Mapping[str, Any], algorithms: Algorithms) -> VerificationKey | None:
    kind = _TYPES.get(entry["kty"]) if isinstance(entry.get("kty"), str) else None
    if kind is None or "d" in entry:
        return None
    if kind is RSAKey and _rsa_bits(entry.get("n")) not in RSA_BITS:
        return None
    kid = entry.get("kid", "")
    if not isinstance(kid, str):
        return None
    try:
        key = JWKRegistry.import_key(dict(entry))
        key.check_key_op("verify")
    except Exception:  # the library raises all sorts for keys with wrong values
        return None
    fitting = frozenset(name for name in algorithms.allowed or () if _fits(key, name, algorithms))
    if not fitting:
        return None
    return VerificationKey(f"{key.thumbprint()} {kid} {' '.join(sorted(fitting))}", kid, fitting, key)


def _rsa_bits(modulus: Any) -> int:
    """How many bits an RSA key has, before anything is computed with it; 0 if that can't be told."""
    try:
        return int.from_bytes(base64.urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4)), "big").bit_length()
    except (TypeError, ValueError):
        return 0


def _fits(key: Key, name: str, algorithms: Algorithms) -> bool:
    try:
        algorithms.get_alg(name).check_key(key)
    except (JoseError, ValueError):
        return False
    if name.startswith("Ed"):  # keys for key agreement have the same type
        return key.curve_name in (_EDWARDS if name == "EdDSA" else {name}) if isinstance(key, OKPKey) else False
    return True
