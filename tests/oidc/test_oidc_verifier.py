"""Tokens that are valid, and all that are not (RFC 7519, RFC 7515, RFC 8725)."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gateway_oidc.config import OidcConfig
from gateway_oidc.keys import Algorithms, KeySetFault, read_key_set
from gateway_oidc.verifier import TokenRejected, TokenVerifier, Verified
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import Key, OctKey

from gateway_core.contract.clock import SystemClock
from tests.budget import examples
from tests.oidc.issuer import AUDIENCE, ec_key, encoded, forged, okp_key, rsa_key, signed

ISSUER = "https://login.example"
ALL = Algorithms(OidcConfig(issuer=ISSUER, audience=[AUDIENCE]).algorithms)


@cache
def key_of(algorithm: str) -> Key:
    """One key for each kind."""
    if algorithm[:2] == "ES":
        return ec_key(algorithm, {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm])
    if algorithm[:2] == "Ed":
        return okp_key(algorithm, "Ed25519" if algorithm == "EdDSA" else algorithm)
    return rsa_key("RSA") if algorithm == "RSA" else key_of("RSA")


def claims(**changes: Any) -> dict[str, Any]:
    now = time.time()
    valid = {"iss": ISSUER, "aud": AUDIENCE, "sub": "orders", "iat": now, "exp": now + 600}
    return {k: v for k, v in {**valid, **changes}.items() if v is not None}


def verifier(*keys: Key | dict[str, Any], **options: Any) -> TokenVerifier:
    """A verifier that has these public keys."""
    config = OidcConfig(**{"issuer": ISSUER, "audience": AUDIENCE, "jwks_file": Path("unread"), **options})
    made = TokenVerifier(config, SystemClock(), "a test")
    entries = [key if isinstance(key, dict) else key.as_dict(private=False) for key in keys]
    made.store.keys = read_key_set(json.dumps({"keys": entries}).encode(), Algorithms(config.algorithms))
    made.store.good_until = float("inf")
    return made


def checked(made: TokenVerifier, token: str | bytes) -> Verified:
    """What comes of a token for which no key has to be looked for."""
    found = made.verify(token.encode() if isinstance(token, str) else token)
    assert isinstance(found, Verified)
    return found


def rejected(made: TokenVerifier, token: str | bytes) -> str:
    with pytest.raises(TokenRejected) as refusal:
        checked(made, token)
    return str(refusal.value)


PUBLIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "Ed448"]


@pytest.mark.spec("OI-01")
@pytest.mark.parametrize("algorithm", PUBLIC)
def test_a_token_of_each_public_key_algorithm_is_valid(algorithm: str) -> None:
    token = signed(claims(extra=[1]), key_of(algorithm), algorithm)
    found = checked(verifier(key_of(algorithm)), token)
    assert (found.subject, found.claims["extra"]) == ("orders", [1])


@pytest.mark.spec("OI-01")
def test_the_older_name_of_edwards_curves_is_understood() -> None:
    key = key_of("EdDSA")
    _, payload, _ = signed(claims(), key, "Ed25519").split(".")
    text = f"{encoded({'alg': 'EdDSA', 'kid': key.kid})}.{payload}"
    token = f"{text}.{encoded(key.private_key.sign(text.encode()))}"  # type: ignore[union-attr, call-arg]
    assert checked(verifier(key), token).subject == "orders"


BOUND = "the token is bound to a key of its sender, which is not supported: use a bearer token"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "expired": ({"exp": time.time() - 31}, "the token has expired"),
    "expires never": ({"exp": None}, "the token does not say when it expires"),
    "exp is text": ({"exp": "tomorrow"}, "the token has a time that is no number of seconds"),
    "exp is true": ({"exp": True}, "the token has a time that is no number of seconds"),
    "exp is huge": ({"exp": 10**400}, "the token has a time that is no number of seconds"),
    "exp is a list": ({"exp": [9e9]}, "the token has a time that is no number of seconds"),
    "not yet": ({"nbf": 9e9}, "the token is not valid yet"),
    "issued later": ({"iat": 9e9}, "the token is not valid yet"),
    "nbf is text": ({"nbf": "0"}, "the token has a time that is no number of seconds"),
    "other audience": ({"aud": "another"}, "the token is for another audience"),
    "part of the audience": ({"aud": AUDIENCE[:-1]}, "the token is for another audience"),
    "other audiences": ({"aud": ["another", 5, None]}, "the token is for another audience"),
    "no audience": ({"aud": None}, "the token is for another audience"),
    "empty audiences": ({"aud": []}, "the token is for another audience"),
    "audience is an object": ({"aud": {AUDIENCE: 1}}, "the token is for another audience"),
    "other issuer": ({"iss": "https://login.example.evil"}, "the token is from another issuer"),
    "issuer with a slash": ({"iss": ISSUER + "/"}, "the token is from another issuer"),
    "no issuer": ({"iss": None}, "the token is from another issuer"),
    "issuers": ({"iss": [ISSUER]}, "the token is from another issuer"),
    "no subject": ({"sub": None}, "the token has no usable subject"),
    "subject is empty": ({"sub": ""}, "the token has no usable subject"),
    "subject is a number": ({"sub": 5}, "the token has no usable subject"),
    "subject has a line break": ({"sub": "orders\nkey billing"}, "the token has no usable subject"),
    "bound to a key of the sender": ({"cnf": {"jkt": "x"}}, BOUND),
    "bound to a certificate": ({"cnf": {"x5t#S256": "x"}}, BOUND),
    "bound to nothing that is known": ({"cnf": {}}, BOUND),
    "subject is a space": ({"sub": " "}, "the token has no usable subject"),
    "subject begins with a space": ({"sub": " orders"}, "the token has no usable subject"),
    "subject is long": ({"sub": "x" * 1025}, "the token has no usable subject"),
}


@pytest.mark.spec("OI-02")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_claims_are_refused(name: str) -> None:
    changes, sentence = WRONG[name]
    key = key_of("ES256")
    assert rejected(verifier(key), signed(claims(**changes), key, "ES256")) == sentence


@pytest.mark.spec("OI-02")
def test_clocks_may_differ_a_little() -> None:
    key, made = key_of("ES256"), verifier(key_of("ES256"))
    for changes in ({"exp": time.time() - 20}, {"nbf": time.time() + 20}, {"iat": time.time() + 20}):
        assert checked(made, signed(claims(**changes), key, "ES256")).subject == "orders"
    strict = verifier(key, clock_skew_s=0)
    assert rejected(strict, signed(claims(exp=time.time() - 1), key, "ES256")) == "the token has expired"


@pytest.mark.spec("OI-02")
def test_one_of_several_audiences_is_enough() -> None:
    key = key_of("ES256")
    made = verifier(key, audience=["a", "b"])
    assert checked(made, signed(claims(aud=["x", "b"]), key, "ES256"))
    assert checked(made, signed(claims(aud="a"), key, "ES256"))
    rejected(made, signed(claims(aud="a b"), key, "ES256"))


HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "crit": ({"crit": ["exp"], "exp": 1}, "the token's header is not supported"),
    "crit is empty": ({"crit": []}, "the token's header is not supported"),
    "unencoded payload": ({"b64": True}, "the token's header is not supported"),
    "kid is a number": ({"kid": 5}, "the token's header is not supported"),
    "alg in lower case": ({"alg": "es256"}, "the token is signed with an algorithm that is not allowed"),
    "alg none": ({"alg": "none"}, "the token is signed with an algorithm that is not allowed"),
    "alg None": ({"alg": "None"}, "the token is signed with an algorithm that is not allowed"),
    "alg is a list": ({"alg": ["ES256"]}, "the token's header is not supported"),
    "alg is null": ({"alg": None}, "the token's header is not supported"),
    "a logout token": ({"typ": "logout+jwt"}, "the token is of a kind that proves no sender"),
    "an event of security": ({"typ": "application/SecEvent+JWT"}, "the token is of a kind that proves no sender"),
    "a type that is no text": ({"typ": ["JWT"]}, "the token is of a kind that proves no sender"),
    "encrypted": ({"alg": "RSA-OAEP", "enc": "A256GCM"}, "the token is signed with an algorithm that is not allowed"),
}


@pytest.mark.spec("OI-03")
@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_are_not_supported_are_refused(name: str) -> None:
    changes, sentence = HEADERS[name]
    key = key_of("ES256")
    _, payload, signature = signed(claims(), key, "ES256").split(".")
    header = encoded({"alg": "ES256", "kid": key.kid, **changes})
    assert rejected(verifier(key), f"{header}.{payload}.{signature}") == sentence
    assert rejected(verifier(key), f"{header}.{payload}.") in (sentence, "the token is not a signed JSON Web Token")


@pytest.mark.spec("OI-01")
@pytest.mark.parametrize("kind", [None, "JWT", "jwt", "at+jwt", "application/at+jwt", "JOSE"])
def test_types_of_tokens_that_are_accepted(kind: str | None) -> None:
    key = key_of("ES256")
    assert checked(verifier(key), signed(claims(), key, "ES256", {"typ": kind})).subject == "orders"


@pytest.mark.spec("OI-03")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_public_key_is_no_secret(algorithm: str) -> None:
    key = key_of(algorithm)
    made = verifier(key)
    texts = [key.as_pem(), key.as_der(), json.dumps(key.as_dict(private=False)).encode()]  # type: ignore[union-attr]
    for text in texts:
        assert "not allowed" in rejected(made, forged(claims(), text, key.kid))


@pytest.mark.spec("OI-03")
def test_a_key_is_used_only_for_what_it_is_meant_for() -> None:
    rsa, elliptic = key_of("RSA"), key_of("ES256")
    plain = rsa.as_dict(private=False)
    assert checked(verifier(plain), signed(claims(), rsa, "PS256"))
    for change in ({"alg": "RS256"}, {"use": "enc"}, {"key_ops": ["sign"]}, {"key_ops": ["wrapKey"]}):
        made = verifier({**plain, **change}, {**elliptic.as_dict(private=False), "kid": "other"})
        assert not made.store.keys.fitting(rsa.kid, "PS256")
    # the right name, and a key of another type or curve
    made = verifier({**elliptic.as_dict(private=False), "kid": "x"}, {**plain, "kid": "y"})
    assert not made.store.keys.fitting("x", "RS256")
    assert not made.store.keys.fitting("x", "ES384")
    assert not made.store.keys.fitting("y", "ES256")


@pytest.mark.spec("OI-03")
def test_keys_in_a_token_are_ignored() -> None:
    own, mine = key_of("ES256"), ec_key("mine")
    public = mine.as_dict(private=False)
    for header in ({"jwk": public}, {"jku": "http://127.0.0.1:9/keys"}, {"x5u": "http://127.0.0.1:9/certificate"}):
        token = signed(claims(), mine, "ES256", {"kid": own.kid, **header})
        assert rejected(verifier(own), token) == "the token's signature is wrong"


@pytest.mark.spec("OI-03")
def test_keys_that_nobody_should_publish_are_left_out(recwarn: pytest.WarningsRecorder) -> None:
    from joserfc.jwk import RSAKey

    weak = RSAKey.generate_key(1024, {"kid": "weak"}).as_dict(private=False)
    recwarn.clear()  # the library warns of it
    secret = OctKey.generate_key(256, {"kid": "secret"}).as_dict(private=True)
    private = ec_key("private").as_dict(private=True)
    agreement = okp_key("agreement", "X25519").as_dict(private=False)
    nonsense: list[dict[str, Any]] = [
        {},
        {"kty": "RSA"},
        {"kty": ["RSA"]},
        {"kty": "EC", "crv": "P-256", "x": "!", "y": 5},
    ]
    made = verifier(weak, secret, private, agreement, *nonsense, key_of("ES256"))
    assert made.store.keys.kids == {"ES256"}


@pytest.mark.spec("OI-03")
def test_a_token_without_kid_may_be_signed_with_any_key_that_fits() -> None:
    first, second, stranger = ec_key("1"), ec_key("2"), ec_key("3")
    made = verifier(first, second, key_of("RSA"))
    for key in (first, second):
        assert checked(made, signed(claims(), key, "ES256", {"kid": None}))
    assert rejected(made, signed(claims(), stranger, "ES256", {"kid": None})) == "the token's signature is wrong"


@pytest.mark.spec("OI-01")
def test_only_configured_algorithms_are_allowed() -> None:
    made = verifier(key_of("RSA"), key_of("ES256"), algorithms=["ES256"])
    assert checked(made, signed(claims(), key_of("ES256"), "ES256"))
    assert "not allowed" in rejected(made, signed(claims(), key_of("RSA"), "RS256"))


@pytest.mark.spec("OI-04")
def test_required_claims() -> None:
    key = key_of("ES256")
    made = verifier(key, claims={"scope": "events:write", "groups": ["senders", "admins"], "level": 1})
    valid: dict[str, Any] = {"scope": "openid events:write", "groups": ["x", "senders"], "level": 1}
    assert checked(made, signed(claims(**valid), key, "ES256"))
    changes: list[dict[str, Any]] = [
        {"scope": "events:write2"},
        {"scope": None},
        {"groups": "senders admins"},
        {"groups": {"senders": 1}},
        {"level": True},
        {"level": "1"},
    ]
    for change in changes:
        token = signed(claims(**{**valid, **change}), key, "ES256")
        assert rejected(made, token) == "the token lacks a claim that is required"


@pytest.mark.spec("OI-05")
def test_another_claim_may_name_the_sender() -> None:
    key = key_of("ES256")
    made = verifier(key, subject="email", subject_prefix="login:")
    good = signed(claims(email="a@b.example", email_verified=True), key, "ES256")
    assert checked(made, good).subject == "login:a@b.example"
    assert rejected(made, signed(claims(), key, "ES256")) == "the token has no usable subject"
    for change in ({"email_verified": False}, {"email_verified": "true"}, {}):
        token = signed(claims(email="a@b.example", **change), key, "ES256")
        assert rejected(made, token) == "the token's subject is an address that is not verified"


@pytest.mark.spec("OI-05")
@pytest.mark.parametrize(
    "subject", ["key billing", "user a", "hmac a", "webhooks a", "dns a.example", "uri a:b", "CN=a,O=b", "CN==a"]
)
def test_a_subject_is_never_one_of_another_authenticator(subject: str) -> None:
    key = key_of("ES256")
    token = signed(claims(sub=subject), key, "ES256")
    refused = "the token's subject could be taken for one of another authenticator"
    assert rejected(verifier(key), token) == refused
    assert checked(verifier(key, subject_prefix="login:"), token).subject == f"login:{subject}"
    split = signed(claims(sub=subject[1:]), key, "ES256")
    assert rejected(verifier(key, subject_prefix=subject[0]), split) == refused


@pytest.mark.spec("OI-03")
@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "a.b.c.d.e",
        f"{encoded([])}.e30.AA",
        f"{encoded(['alg'])}.e30.AA",
        f"{encoded('alg')}.e30.AA",
        f"{encoded(b'[' * 5000)}.e30.AA",
        f"{encoded({'alg': 'ES256'})}.{encoded(b'[' * 5000)}.AA",
        f"{encoded({'alg': 'ES256'})}.{encoded([])}.AA",
        f"{encoded({'alg': 'ES256'})}.{encoded(bytes([255]))}.AA",
        "\0" * 10,
        "é.é.é",
        "x" * 8193,
    ],
    ids=lambda token: f"{len(token)} characters, {zlib.crc32(token.encode()):x}",
)
def test_nonsense_is_refused(token: str) -> None:
    assert rejected(verifier(key_of("ES256")), token)


@pytest.mark.spec("OI-03")
def test_a_token_that_is_too_long_is_refused_before_anything_else() -> None:
    key = key_of("ES256")
    token = signed(claims(filling="x" * 8000), key, "ES256")
    assert rejected(verifier(key), token) == "the token is too long"
    assert checked(verifier(key, max_token_bytes=20_000), token)


VALID = signed(claims(exp=4e9), key_of("ES256"), "ES256")


@pytest.mark.spec("OI-03")
@examples(150)
@given(st.integers(0, len(VALID) - 1), st.sampled_from("Aa0._-=+/ \n~é"))
def test_no_changed_token_is_valid(place: int, character: str) -> None:
    changed = VALID[:place] + character + VALID[place + 1 :]
    made = verifier(key_of("ES256"))
    with suppress(TokenRejected):
        found = made.verify(changed.encode())
        assert isinstance(found, Verified) == (changed == VALID)
        if isinstance(found, Coroutine):  # it would look for another key
            found.close()


@pytest.mark.spec("OI-03")
@examples(100)
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_refused_with_a_sentence(nonsense: bytes, as_header: bool) -> None:
    token = f"{encoded(nonsense)}.{encoded(nonsense)}.AA".encode() if as_header else nonsense
    with pytest.raises(TokenRejected):
        verifier(key_of("ES256")).verify(token)


FAULTS: dict[str, Callable[[], bytes]] = {
    "no JSON": lambda: b"<html>",
    "a list": lambda: b"[]",
    "no keys": lambda: b"{}",
    "keys of text": lambda: b'{"keys": ["x"]}',
    "deep": lambda: b'{"keys": [{"a": ' + b"[" * 100_000,
    "too many": lambda: json.dumps({"keys": [{}] * 257}).encode(),
}


@pytest.mark.spec("OI-07")
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_no_key_set(name: str) -> None:
    with pytest.raises(KeySetFault):
        read_key_set(FAULTS[name](), ALL)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no audience": ({"issuer": ISSUER}, "audience"),
    "empty audience": ({"issuer": ISSUER, "audience": []}, "audience"),
    "audience of nothing": ({"issuer": ISSUER, "audience": ""}, "audience"),
    "plain http": ({"issuer": "http://login.example", "audience": "a"}, "must start with https://"),
    "plain http for keys": ({"issuer": "x", "audience": "a", "jwks_url": "http://10.0.0.1/"}, "must start with https"),
    "no URL": ({"issuer": "login.example", "audience": "a"}, "or set `jwks_url` or `jwks_file`"),
    "a password": ({"issuer": "https://a:b@login.example", "audience": "a"}, "no user, password"),
    "a query": ({"issuer": "https://login.example/?a=b", "audience": "a"}, "no query"),
    "two places": (
        {"issuer": ISSUER, "audience": "a", "jwks_url": ISSUER, "jwks_file": "k.json"},
        "has two places for keys",
    ),
    "keys age before they are renewed": (
        {"issuer": ISSUER, "audience": "a", "keys_max_age_s": 599},
        "times without keys",
    ),
    "none": ({"issuer": ISSUER, "audience": "a", "algorithms": ["none"]}, "algorithms"),
    "hmac": ({"issuer": ISSUER, "audience": "a", "algorithms": ["HS256"]}, "algorithms"),
    "keys' names": ({"issuer": ISSUER, "audience": "a", "subject_prefix": "key "}, "another authenticator"),
    "names in certificates": ({"issuer": ISSUER, "audience": "a", "subject_prefix": "CN="}, "another authenticator"),
}


@pytest.mark.spec("OI-08")
@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_make_no_sense_are_faults(name: str) -> None:
    options, said = OPTIONS[name]
    with pytest.raises(ValueError, match=said):
        OidcConfig.model_validate(options)


@pytest.mark.spec("OI-08")
@pytest.mark.parametrize("issuer", ["http://localhost:8080/realm", "http://127.0.0.1:9", "http://[::1]:9/", ISSUER])
def test_loopback_needs_no_tls(issuer: str) -> None:
    assert OidcConfig.model_validate({"issuer": issuer, "audience": "a"}).audience == ["a"]
    assert OidcConfig.model_validate({"issuer": "http://10.0.0.1", "audience": "a", "allow_http": True})
