"""Bearer tokens (JSON Web Tokens) and key sets: anything is rejected that the issuer did not sign for us, and nothing
raises.

An input is a byte and a text. Its value modulo 3: 0 a whole token, 1 a header and claims in JSON with a line's end
between them, which the issuer's key signs, 2 a JSON Web Key Set.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from gateway_oidc.config import OidcConfig
from gateway_oidc.keys import Algorithms, KeySetFault, read_key_set
from gateway_oidc.verifier import TokenRejected, TokenVerifier, Verified
from gateway_testing import FakeClock

ISSUER, AUDIENCE, NOW = "https://login.example", "gateway", 1_700_000_000


def _text(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


_PRIVATE = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"fuzz").digest())
_JWK = {"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": _text(_PRIVATE.public_key().public_bytes_raw()).decode()}
_CONFIG = OidcConfig.model_validate(
    {"issuer": ISSUER, "audience": AUDIENCE, "jwks_file": Path("unread"), "claims": {"scope": "send"}}
)
_ALGORITHMS = Algorithms(_CONFIG.algorithms)
_VERIFIER = TokenVerifier(_CONFIG, FakeClock(NOW), "fuzz")
_VERIFIER.store.keys = read_key_set(json.dumps({"keys": [_JWK]}).encode(), _ALGORITHMS)
_VERIFIER.store.good_until = float("inf")


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    kind, text = (data[0] % 3, data[1:]) if data else (0, b"")
    if kind == 2:
        try:
            found = read_key_set(text, _ALGORITHMS)
        except KeySetFault:
            return
        for name in _CONFIG.algorithms:
            for key in found.fitting(None, name):
                assert not key.key.is_private
                assert key.key.key_type != "oct", "a key that everyone knows"
        return
    if kind == 1:
        head, _, body = text.partition(b"\n")
        signed = _text(head) + b"." + _text(body)
        _check_claims(head, body, _verified(signed + b"." + _text(_PRIVATE.sign(signed))))
    elif _verified(text) is not None:
        signed, _, signature = text.rpartition(b".")
        assert base64.urlsafe_b64decode(signature + b"==") == _PRIVATE.sign(signed), "a forged token is taken"


def _verified(token: bytes) -> Verified | None:
    try:
        found = _VERIFIER.verify(token)
    except TokenRejected as e:
        if not 0 < len(str(e)) < 200:
            raise AssertionError("a refusal as long as the token") from e
        return None
    if isinstance(found, Verified):
        return found
    found.close()  # type: ignore[attr-defined]
    return None  # its key would be looked for


def _check_claims(head: bytes, body: bytes, found: Verified | None) -> None:
    """What another JSON parser finds is why it was taken."""
    if found is None:
        return
    header, claims = json.loads(head), json.loads(body)
    assert header["alg"] in ("EdDSA", "Ed25519")
    assert claims["iss"] == ISSUER
    assert AUDIENCE in _list(claims["aud"])
    assert claims["exp"] + _CONFIG.clock_skew_s > NOW
    for name in ("nbf", "iat"):
        assert (claims.get(name) or 0) - _CONFIG.clock_skew_s <= NOW
    assert "send" in [word for item in _list(claims["scope"]) for word in str(item).split(" ")]
    assert found.subject == claims["sub"]
    assert found.subject.isprintable()
    assert "crit" not in header


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_HEAD = b'{"alg":"EdDSA","kid":"k","typ":"JWT"}'
_CLAIMS = b'{"iss":"https://login.example","aud":"gateway","sub":"orders","exp":1700000600,"scope":"send"}'
_WHOLE = _text(_HEAD) + b"." + _text(_CLAIMS)
SEEDS = [
    b"\0" + _WHOLE + b"." + _text(_PRIVATE.sign(_WHOLE)),
    b"\0" + _WHOLE + b"." + _text(bytes(64)),
    b"\0" + _text(b'{"alg":"none"}') + b"." + _text(_CLAIMS) + b".",
    b"\0a.b.c",
    b"\1" + _HEAD + b"\n" + _CLAIMS,
    b"\1" + _HEAD + b"\n" + _CLAIMS.replace(b'"gateway"', b'["other","gateway"]'),
    b"\1" + _HEAD + b"\n" + _CLAIMS.replace(b"}", b',"nbf":1699999999,"iat":1e9,"cnf":null}'),
    b"\1" + _HEAD + b"\n" + _CLAIMS.replace(b"}", b',"nbf":1700000029}'),
    b"\1" + _HEAD + b"\n" + _CLAIMS.replace(b"1700000600", b"1699999000"),
    b"\1" + _HEAD.replace(b"JWT", b"at+jwt") + b"\n" + _CLAIMS.replace(b'"send"', b'["read","send"]'),
    b"\1" + _HEAD.replace(b"}", b',"crit":["b64"],"b64":false}') + b"\n" + _CLAIMS,
    b"\1" + _HEAD.replace(b"EdDSA", b"HS256") + b"\n" + _CLAIMS,
    b"\1" + _HEAD.replace(b'"k"', b'"other"') + b"\n" + _CLAIMS,
    b"\1" + _HEAD + b"\n" + _CLAIMS.replace(b"orders", b"api_key x"),
    b"\2" + json.dumps({"keys": [_JWK]}).encode(),
    b"\2"
    + json.dumps(
        {"keys": [{**_JWK, "use": "enc"}, {"kty": "oct", "k": "AAAA"}, {"kty": "RSA", "n": "AQ", "e": "AQAB"}]}
    ).encode(),
    b'\2{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":1}]}',
]
WORDS = [
    *(b'"alg":"', b"EdDSA", b"none", b"HS256", b'"kid":"k"', b'"typ":"JWT"', b'"crit":[]', b'"iss":"'),
    *(b'"aud":"gateway"', b'"sub":"orders"', b'"exp":1700000600', b'"nbf":', b'"iat":', b'"scope":"send"'),
    *(b'"cnf":{}', b"\n", b"1e999", b"NaN", b"null", b"true", b"[", b"]", b"{", b"}", b".", b"==", b'"kty":"OKP"'),
    *(b'"crv":"Ed25519"', b'"kty":"oct"', b'"k":"AA"', b'"kty":"RSA"', b'"n":"', b'"e":"AQAB"', b'"kty":"EC"'),
    *(b'"crv":"P-256"', b'"x":"', b'"d":"', b'"use":"sig"', b'"key_ops":["verify"]', b'"x5c":["', b'"keys":['),
    *(b"\\ud800", b"\\u0000", b"\xff"),
]  # fmt: skip
