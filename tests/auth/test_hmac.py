"""The authenticator `hmac`: published examples of the senders' own documentation, and what is not accepted."""

from __future__ import annotations

import base64
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.authenticator import Unauthenticated
from tests.auth.signing import NOW, Bench, Headers

SECRET = "0123456789abcdef-secret"
TIMED = {
    "secrets": [SECRET],
    "header": "X-Signature",
    "timestamp_header": "X-Timestamp",
    "signed": "{timestamp}.{body}",
}


def digest(secret: str, content: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.new(secret.encode(), content, algorithm).digest()


def timed(body: bytes, at: int = NOW, secret: str = SECRET) -> dict[str, str]:
    return {"x-signature": digest(secret, b"%d.%s" % (at, body)).hex(), "x-timestamp": str(at)}


# -- presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("HM-05")
def test_github_as_published() -> None:
    """docs.github.com, "Validating webhook deliveries", "Testing the webhook payload validation"."""
    bench = Bench("hmac", {"preset": "github", "secrets": ["It's a Secret to Everybody"]})
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert bench.subject({"x-hub-signature-256": signature}, b"Hello, World!") == "hmac github"
    with pytest.raises(Unauthenticated):
        bench.subject({"x-hub-signature-256": signature}, b"Hello, World?")
    assert bench.subject({"x-hub-signature": "sha1=00"}) is None


@pytest.mark.spec("HM-05")
def test_slack_as_published() -> None:
    """docs.slack.dev, "Verifying requests from Slack", "Step-by-step walk-through"."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    options = {"preset": "slack", "secrets": ["8f742231b10e8888abcd99yyyzzz85a5"]}
    assert Bench("hmac", options, 1531420618 + 299).subject(headers, body) == "hmac slack"
    with pytest.raises(Unauthenticated, match="too far"):
        Bench("hmac", options, 1531420618 + 301).subject(headers, body)


@pytest.mark.spec("HM-05")
def test_stripe_as_its_library_signs() -> None:
    """docs.stripe.com, "Verify webhook signatures", "Verify manually": several `v1`, and `v0`, which proves nothing."""
    body = b'{\n  "id": "evt_test_webhook"\n}'
    right = digest("whsec_test_secret", b"%d.%s" % (NOW, body)).hex()
    bench = Bench("hmac", {"preset": "stripe", "secrets": ["whsec_test_secret"]})
    for written in (f"t={NOW},v1={right}", f"t={NOW}, v1={'0' * 64}, v1={right}, v0={'0' * 64}"):
        assert bench.subject({"stripe-signature": written}, body) == "hmac stripe"
    for written in (f"t={NOW},v0={right}", f"v1={right}", f"t={NOW + 1},v1={right}", right, f"t={NOW},t=1,v1={right}"):
        with pytest.raises(Unauthenticated):
            bench.subject({"stripe-signature": written}, body)


@pytest.mark.spec("HM-05")
def test_shopify_as_documented() -> None:
    """shopify.dev, "Verify webhook deliveries": Base64 of HMAC-SHA256 of the raw body."""
    bench = Bench("hmac", {"preset": "shopify", "secrets": ["hush-hush-hush-hush"]})
    signature = base64.b64encode(digest("hush-hush-hush-hush", b"{}")).decode()
    assert bench.subject({"x-shopify-hmac-sha256": signature}, b"{}") == "hmac shopify"
    for wrong in (signature[:-4], signature.rstrip("="), f" {signature}\n", ""):
        with pytest.raises(Unauthenticated):
            bench.subject({"x-shopify-hmac-sha256": wrong}, b"{}")


# -- the generic scheme -----------------------------------------------------------------------------------------------


@pytest.mark.spec("HM-06")
@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_algorithms_and_encodings(algorithm: str, encoding: str) -> None:
    options = {"secrets": [SECRET], "header": "X-Sig", "algorithm": algorithm, "encoding": encoding, "prefix": "v="}
    bench = Bench("hmac", {**options, "name": "shop"})
    raw = digest(SECRET, b"body", algorithm)
    written = raw.hex() if encoding == "hex" else base64.b64encode(raw).decode()
    assert bench.subject({"x-sig": f"v={written}"}, b"body") == "hmac shop"
    if encoding == "hex":
        assert bench.subject({"x-sig": f"v={written.upper()}"}, b"body") == "hmac shop"
    with pytest.raises(Unauthenticated, match="malformed"):
        bench.subject({"x-sig": written}, b"body")
    assert [text for text in bench.warned() if "SHA-1" in text] == (
        ["SHA-1 is outdated"] if algorithm == "sha1" else []
    )


@pytest.mark.spec("HM-06")
def test_an_empty_body_can_be_signed() -> None:
    bench = Bench("hmac", {"secrets": [SECRET], "header": "x-sig"})
    assert bench.subject({"x-sig": digest(SECRET, b"").hex()}, None) == "hmac x-sig"


@pytest.mark.spec("HM-07")
def test_zeros_of_the_body_are_not_those_of_the_timestamp() -> None:
    bench = Bench("hmac", {**TIMED, "signed": "{body}{timestamp}"})
    headers = {"x-signature": digest(SECRET, b"amount=100%d" % NOW).hex(), "x-timestamp": str(NOW)}
    assert bench.subject(headers, b"amount=100")
    with pytest.raises(Unauthenticated, match="not a number"):
        bench.subject({**headers, "x-timestamp": f"0{NOW}"}, b"amount=10")


@pytest.mark.spec("HM-07")
@pytest.mark.parametrize(
    ("headers", "says"),
    [
        (timed(b"{}", secret="another secret"), "does not fit"),
        (timed(b"another body"), "does not fit"),
        ({**timed(b"{}"), "x-timestamp": str(NOW + 1)}, "does not fit"),
        ({**timed(b"{}"), "x-signature": timed(b"{}")["x-signature"][:-2]}, "malformed"),
        ({**timed(b"{}"), "x-signature": ""}, "malformed"),
        ({**timed(b"{}"), "x-signature": "é" * 64}, "malformed"),
        ({"x-signature": timed(b"{}")["x-signature"]}, "no timestamp"),
        (timed(b"{}", NOW - 301), "too far"),
        (timed(b"{}", NOW + 301), "too far"),
        ({**timed(b"{}"), "x-timestamp": "now"}, "not a number"),
        ({**timed(b"{}"), "x-timestamp": f"{NOW}.0"}, "not a number"),
        ({**timed(b"{}"), "x-timestamp": f"+{NOW}"}, "not a number"),
        ({**timed(b"{}"), "x-timestamp": f" {NOW}"}, "not a number"),
        ({**timed(b"{}"), "x-timestamp": "9" * 5000}, "not a number"),
        ({**timed(b"{}"), "x-timestamp": ""}, "not a number"),
        ([*timed(b"{}").items(), ("x-signature", "00")], "twice"),
        ([*timed(b"{}").items(), ("x-timestamp", str(NOW))], "twice"),
    ],
)
def test_what_is_not_accepted(headers: Headers, says: str) -> None:
    bench = Bench("hmac", TIMED)
    assert bench.subject(timed(b"{}"), b"{}") == "hmac x-signature"
    with pytest.raises(Unauthenticated, match=says) as error:
        bench.subject(headers, b"{}")
    assert error.value.status == 401


@pytest.mark.slow
@pytest.mark.spec("HM-07")
@given(st.binary(max_size=100), st.binary(max_size=80), st.binary(max_size=20))
def test_nothing_else_is_a_signature(body: bytes, signature: bytes, timestamp: bytes) -> None:
    for options in (TIMED, {"preset": "stripe", "secrets": [SECRET]}, {"preset": "shopify", "secrets": [SECRET]}):
        bench = Bench("hmac", options)
        headers = {bench.options.header: signature.decode("latin-1"), "x-timestamp": timestamp.decode("latin-1")}
        with pytest.raises(Unauthenticated):
            bench.subject(headers, body)


@pytest.mark.spec("HM-08")
def test_while_a_secret_replaces_another_both_count() -> None:
    bench = Bench("hmac", {**TIMED, "secrets": ["the-old-secret-of-before", SECRET]})
    for secret in ("the-old-secret-of-before", SECRET):
        assert bench.subject(timed(b"{}", secret=secret), b"{}")
    with pytest.raises(Unauthenticated):
        Bench("hmac", TIMED).subject(timed(b"{}", secret="the-old-secret-of-before"), b"{}")


@pytest.mark.spec("HM-09")
def test_a_replay_is_remembered_if_asked() -> None:
    forgetful, bench = Bench("hmac", TIMED), Bench("hmac", {**TIMED, "remember": 3})
    for _ in range(3):
        assert forgetful.subject(timed(b"{}"), b"{}")
    assert bench.subject(timed(b"{}"), b"{}")
    with pytest.raises(Unauthenticated, match="has come before"):
        bench.subject({**timed(b"{}"), "x-signature": timed(b"{}")["x-signature"].upper()}, b"{}")
    for body in (b"1", b"2", b"3"):
        assert bench.subject(timed(body), body)
    assert bench.subject(timed(b"{}"), b"{}"), "three others have pushed it out"


@pytest.mark.spec("HM-09")
def test_a_replay_with_one_of_two_signatures_is_a_replay() -> None:
    bench = Bench("hmac", {"preset": "stripe", "secrets": ["old-old-old-old-old", SECRET], "remember": 10})
    old, new = (digest(secret, b"%d.{}" % NOW).hex() for secret in ("old-old-old-old-old", SECRET))
    assert bench.subject({"stripe-signature": f"t={NOW},v1={old},v1={new}"}, b"{}")
    with pytest.raises(Unauthenticated, match="has come before"):
        bench.subject({"stripe-signature": f"t={NOW},v1={new}"}, b"{}")


@pytest.mark.spec("HM-09")
def test_a_wrong_request_is_not_remembered() -> None:
    bench = Bench("hmac", {**TIMED, "remember": 1})
    assert bench.subject(timed(b"{}"), b"{}")
    with pytest.raises(Unauthenticated, match="does not fit"):
        bench.subject(timed(b"x", secret="another secret"), b"x")
    with pytest.raises(Unauthenticated, match="has come before"):
        bench.subject(timed(b"{}"), b"{}")


@pytest.mark.spec("HM-15")
def test_attributes_beside_the_body_are_not_signed() -> None:
    binary, kind = {"ce-specversion": "1.0", "ce-type": "t"}, "Application/CloudEvents+JSON; charset=utf-8"
    bench, open = Bench("hmac", TIMED), Bench("hmac", {**TIMED, "unsigned_attributes": True})
    for headers in (binary, {"ce-type": "t"}, {**binary, "content-type": "application/json"}):
        with pytest.raises(Unauthenticated, match="does not cover"):
            bench.subject({**timed(b"{}"), **headers}, b"{}")
        assert open.subject({**timed(b"{}"), **headers}, b"{}") == "hmac x-signature"
    assert bench.subject({**timed(b"{}"), **binary, "content-type": kind}, b"{}") == "hmac x-signature"
    with pytest.raises(Unauthenticated, match="does not cover"):
        bench.subject([*timed(b"{}").items(), *binary.items(), *[("content-type", kind)] * 2], b"{}")


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("HM-10")
@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"header": "x-sig"}, "there is no secret"),
        ({"header": "x-sig", "secrets": [""]}, "anyone could sign"),
        ({"header": "x-sig", "secrets": [" \n"]}, "anyone could sign"),
        ({"secrets": [SECRET]}, "`header` is missing"),
        ({"secrets": [SECRET], "header": "x sig"}, "not the name of a header"),
        ({"secrets": [SECRET], "header": "x", "signed": "static"}, "would say nothing about the event"),
        ({"secrets": [SECRET], "header": "x", "signed": "{body}{body}"}, "once"),
        ({"secrets": [SECRET], "header": "x", "signed": "{url}{body}"}, "unknown part {url}"),
        ({"secrets": [SECRET], "header": "x", "signed": "{timestamp}{body}"}, "set `timestamp_header`"),
        ({"secrets": [SECRET], "header": "x", "timestamp_header": "t"}, "the timestamp is not signed"),
        ({"secrets": [SECRET], "header": "x", "timestamp_header": "X", "signed": "{timestamp}{body}"}, "the same"),
        ({"secrets": [SECRET], "header": "x", "timestamp_field": "t", "signed": "{timestamp}{body}"}, "set that too"),
        ({"secrets": [SECRET], "header": "x", "remember": 1}, "needs a timestamp"),
        ({"secrets": [SECRET], "preset": "gitlab"}, "preset"),
    ],
)
def test_wrong_options_are_faults(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Bench("hmac", options)


@pytest.mark.spec("HM-10")
def test_unwise_options_are_warned_of() -> None:
    assert Bench("hmac", TIMED).warned() == []
    bench = Bench("hmac", {**TIMED, "secrets": ["short", SECRET], "window_s": 7200, "algorithm": "sha1"})
    assert bench.warned() == [
        "the secret has 5 bytes only: it can be guessed from one signed request",
        "a captured request can be sent again for more than an hour",
        "SHA-1 is outdated",
    ]
    assert SECRET not in repr(bench.options) + str(bench.options)


@pytest.mark.spec("HM-05")
def test_an_option_beside_a_preset_counts_first() -> None:
    bench = Bench("hmac", {"preset": "github", "header": "x-gitea-signature", "prefix": "", "secrets": [SECRET]})
    assert bench.subject({"x-gitea-signature": digest(SECRET, b"{}").hex()}, b"{}")
