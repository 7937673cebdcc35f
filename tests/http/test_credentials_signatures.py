"""Signed requests of the HTTP sink: Standard Webhooks, checked with its official library, and schemes with HMAC."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest
from gateway_cloudevents import plugin as cloudevents
from gateway_http.config import HttpSinkConfig
from gateway_http.credentials.signing import webhook_id
from gateway_options import renewed
from gateway_testing import FakeClock, Subscriber
from gateway_testing.subscriber import Received
from standardwebhooks import Webhook, WebhookVerificationError

from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from tests.auth.signing import Bench

pytestmark = pytest.mark.anyio

OLD, NEW = ("whsec_" + base64.b64encode(text * 2).decode() for text in (b"an old secret of us", b"a new secret of us!"))
EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b'{"n":"\xc3\xa4"}')


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


async def received(kit: Any, credentials: dict[str, Any], *answers: int, client: str = "native") -> list[Received]:
    """The requests of as many attempts to deliver `EVENT`."""
    with Subscriber(answers) as subscriber:
        async with kit.sink(subscriber.url, client=client, credentials=credentials) as sink:
            for code in answers:
                assert (await kit.send(sink, EVENT)).code == code
    return subscriber.requests


# -- Standard Webhooks ------------------------------------------------------------------------------------------------


@pytest.mark.spec("OC-10")
async def test_the_official_library_accepts_it(kit: Any, client: str) -> None:
    requests = await received(kit, {"standard_webhooks": {"secrets": [NEW, OLD]}}, 503, 503, 202, client=client)
    for request in requests:
        for secret in (NEW, OLD):
            Webhook(secret).verify(request.body, dict(request.headers))
        with pytest.raises(WebhookVerificationError):
            Webhook("whsec_" + base64.b64encode(b"another").decode()).verify(request.body, dict(request.headers))
        with pytest.raises(WebhookVerificationError):
            Webhook(NEW).verify(request.body + b" ", dict(request.headers))
    assert {r.headers["webhook-id"] for r in requests} == {webhook_id(EVENT).decode()}


@pytest.mark.spec("OC-10")
async def test_the_time_is_that_of_the_attempt(kit: Any) -> None:
    clock = FakeClock()
    with Subscriber() as subscriber:
        given = {"url": subscriber.url, "credentials": {"standard_webhooks": {"secrets": [NEW]}}}
        sink = kit.build("sink", given, clock=clock)
        first = sink.preview(EVENT)
        clock.advance(60)
        second = sink.preview(EVENT)
    assert int(second.header(b"webhook-timestamp")) - int(first.header(b"webhook-timestamp")) == 60
    assert first.header(b"webhook-id") == second.header(b"webhook-id")
    assert first.header(b"webhook-signature") == second.header(b"webhook-signature") == b"****"


@pytest.mark.spec("OC-10")
def test_an_identifier_is_one_event() -> None:
    def of(**attributes: Any) -> bytes:
        return webhook_id(Event({"specversion": "1.0", **attributes}))

    assert of(source="/a", id="b") == of(source="/a", id="b", type="other") == of(source="/a", eventID="b")
    ids = [of(source="/a", id="b"), of(source="/a", id="c"), of(source="/b", id="b"), of(source="/ab", id=""), of()]
    assert len(set(ids)) == 5
    assert all(b"." not in i and i.startswith(b"msg_") and len(i) == 44 for i in ids)
    of(source="\ud800", id=7)


@pytest.mark.spec("OC-10")
async def test_secrets_in_files_are_read_again(kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed, "CHECK_S", 0.0)
    (tmp_path / "secret").write_text(OLD + "\n")
    given = {"standard_webhooks": {"secret_files": [tmp_path / "secret"], "header_prefix": "svix-"}}
    with Subscriber() as subscriber:
        async with kit.sink(subscriber.url, credentials=given) as sink:
            for secret in (OLD, NEW):
                (tmp_path / "secret").write_text(secret)
                assert (await kit.send(sink, EVENT)).delivered
    for secret, request in zip((OLD, NEW), subscriber.requests, strict=True):
        headers = {name.replace("svix-", "webhook-"): value for name, value in request.headers.items()}
        Webhook(secret).verify(request.body, headers)


@pytest.mark.parametrize("content", [None, "", "whsec_ä", "whsk_" + base64.b64encode(b"a" * 32).decode()])
def test_a_file_without_a_secret_stops_the_start(kit: Any, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "secret").write_text(content)
    given = {"url": "https://h/", "credentials": {"standard_webhooks": {"secret_files": [tmp_path / "secret"]}}}
    with pytest.raises(StartError) as raised:
        kit.build("sink", given)
    assert str(raised.value).startswith("here: ")
    assert not content or content not in str(raised.value)
    kit.build("sink", given, offline=True)


@pytest.mark.spec("HM-17")
async def test_nothing_leaves_unsigned_after_the_secrets_were_removed(
    kit: Any, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits: nothing was sent, so no attempt counts."""
    monkeypatch.setattr(renewed, "CHECK_S", 0.0)
    files = [tmp_path / "old", tmp_path / "new"]
    files[0].write_text(OLD)
    files[1].write_text(NEW)
    with Subscriber() as subscriber:
        given = {"standard_webhooks": {"secret_files": files}}
        async with kit.sink(subscriber.url, client=client, credentials=given) as sink:
            assert (await kit.send(sink, EVENT)).delivered
            for path, left in ((files[0], 1), (files[1], 0)):
                path.unlink()
                await kit.send(sink, EVENT)
                outcome = await kit.send(sink, EVENT)
                assert (outcome.delivered, outcome.local) == ((True, False) if left else (False, True))
                if left:
                    Webhook(NEW).verify(subscriber.requests[-1].body, dict(subscriber.requests[-1].headers))
                    with pytest.raises(WebhookVerificationError):
                        Webhook(OLD).verify(subscriber.requests[-1].body, dict(subscriber.requests[-1].headers))
            assert "no secret to sign with" in outcome.reason
            files[0].write_text(NEW)
            assert (await kit.send(sink, EVENT)).delivered
    assert all(request.headers["webhook-signature"].startswith("v1,") for request in subscriber.requests)


# -- HMAC -------------------------------------------------------------------------------------------------------------


def expected(key: str, content: bytes, algorithm: str = "sha256") -> str:
    return hmac.new(key.encode(), content, algorithm).hexdigest()


@pytest.mark.spec("OC-09")
async def test_schemes_of_well_known_senders(kit: Any, client: str) -> None:
    """As their documentation says how a receiver verifies."""
    secrets = {"secrets": ["a new secret", "an old secret"]}
    (request,) = await received(kit, {"hmac": {"preset": "github", **secrets}}, 202, client=client)
    assert request.headers["x-hub-signature-256"] == "sha256=" + expected("a new secret", request.body)
    (request,) = await received(kit, {"hmac": {"preset": "stripe", **secrets}}, 202, client=client)
    pairs = [pair.split("=") for pair in request.headers["stripe-signature"].split(",")]
    assert [name for name, _ in pairs] == ["t", "v1", "v1"]
    signed = f"{pairs[0][1]}.".encode() + request.body
    assert [value for _, value in pairs[1:]] == [expected(key, signed) for key in secrets["secrets"]]
    (request,) = await received(kit, {"hmac": {"preset": "slack", **secrets}}, 202, client=client)
    signed = f"v0:{request.headers['x-slack-request-timestamp']}:".encode() + request.body
    assert request.headers["x-slack-signature"] == "v0=" + expected("a new secret", signed)
    (request,) = await received(kit, {"hmac": {"preset": "shopify", **secrets}}, 202, client=client)
    digest = hmac.digest(b"a new secret", request.body, hashlib.sha256)
    assert request.headers["x-shopify-hmac-sha256"] == base64.b64encode(digest).decode()


@pytest.mark.spec("OC-09")
async def test_a_scheme_of_ones_own(kit: Any, client: str) -> None:
    scheme = {
        "header": "X-Signature",
        "algorithm": "sha512",
        "timestamp_header": "X-Time",
        "signed": "{timestamp}|{body}|end",
        "prefix": "v9:",
        "secrets": ["k" * 32],
    }
    requests = await received(kit, {"hmac": scheme}, 503, 202, client=client)
    for request in requests:
        signed = f"{request.headers['x-time']}|".encode() + request.body + b"|end"
        assert request.headers["x-signature"] == "v9:" + expected("k" * 32, signed, "sha512")


@pytest.mark.spec("OC-07")
def test_a_preview_shows_no_signature(kit: Any, client: str) -> None:
    for given, name in (
        ({"hmac": {"preset": "github", "secrets": ["a secret of mine"]}}, b"x-hub-signature-256"),
        ({"hmac": {"preset": "stripe", "secrets": ["a secret of mine"]}}, b"stripe-signature"),
        ({"standard_webhooks": {"secrets": [NEW]}}, b"webhook-signature"),
        ({"standard_webhooks": {"secrets": [NEW], "header_prefix": "svix-"}}, b"svix-signature"),
    ):
        sink = kit.build("sink", {"url": "https://h/", "client": client, "credentials": given}, offline=True)
        assert sink.preview(EVENT).header(name) == b"****"
        config = HttpSinkConfig.model_validate({"url": "https://h/", "credentials": given})
        assert "a secret of mine" not in repr(config)
        assert NEW not in repr(config)


@pytest.mark.spec("OC-09", "OC-10")
async def test_an_ingress_with_the_same_options_knows_the_sender(kit: Any, client: str) -> None:
    for name, options in (
        ("hmac", {"preset": "github", "secrets": ["0123456789abcdef"]}),
        ("hmac", {"preset": "stripe", "secrets": ["0123456789abcdef", "another secret of ours"]}),
        ("hmac", {"preset": "slack", "secrets": ["0123456789abcdef"]}),
        ("hmac", {"preset": "shopify", "algorithm": "sha512", "secrets": ["0123456789abcdef"]}),
        ("hmac", {"header": "a", "timestamp_field": "t", "signature_field": "s", "signed": "{body}{timestamp}",
                  "prefix": "x", "encoding": "base64", "secrets": ["0123456789abcdef"]}),
        ("standard_webhooks", {"secrets": [NEW, OLD], "header_prefix": "svix-"}),
    ):  # fmt: skip
        (request,) = await received(kit, {name: options}, 202, client=client)
        for secret in options["secrets"][: 1 if options.get("preset") != "stripe" else None]:
            mine = {**options, "secrets": [secret], "unsigned_attributes": True}  # it is sent in binary mode
            authenticator = Bench(name, mine, int(time.time()))
            assert authenticator.subject(dict(request.headers), request.body)
            with pytest.raises(Unauthenticated):
                authenticator.subject(dict(request.headers), request.body + b" ")


# -- the config -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hmac": {"secrets": ["s"]}}, "`header` is missing"),
        ({"hmac": {"preset": "github"}}, "there is no secret"),
        ({"hmac": {"preset": "github", "secrets": [""]}}, "the secret is empty"),
        ({"hmac": {"header": "ce-id", "secrets": ["s"]}}, "'ce-id' can't be set"),
        ({"hmac": {"header": "host", "secrets": ["s"]}}, "'host' can't be set"),
        ({"hmac": {"header": "x-taken", "secrets": ["s"]}}, "leave it out of `headers`"),
        ({"standard_webhooks": {"secrets": ["whsk_abcd"]}}, "keys of Ed25519"),
        ({"standard_webhooks": {"secrets": ["whsec_ä"]}}, "the secret is not base64"),
        ({"standard_webhooks": {"secrets": ["whsec_"]}}, "the secret is empty"),
        ({"standard_webhooks": {"secrets": [NEW]}, "bearer_file": {"path": "t"}}, "write exactly one of"),
    ],
)
def test_a_config_that_cannot_be_meant(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        HttpSinkConfig.model_validate({"url": "https://h/", "headers": {"X-Taken": "1"}, "credentials": given})
    assert words in str(raised.value)


@pytest.mark.spec("OC-08")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"codec": {"cloudevents": {"mode": "structured"}}}, []),
        ({}, ["the signature covers the body only"]),
        ({"url": "http://orders.example/"}, ["replayed", "the signature covers the body only"]),
    ],
)
def test_what_a_signature_does_not_protect_is_warned_of(kit: Any, given: dict[str, Any], words: list[str]) -> None:
    options = {"url": "https://h/", "credentials": {"standard_webhooks": {"secrets": [NEW]}}, **given}
    config = HttpSinkConfig.model_validate(json.loads(json.dumps(options)))
    (codec,) = cloudevents.gateway_codecs()
    config.codec.options = codec.model.model_validate(config.codec.raw or {})
    found = [text for _, text, _ in config.warnings()]
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_a_short_secret_is_warned_of() -> None:
    for given in (
        {"hmac": {"preset": "github", "secrets": ["short"]}},
        {"standard_webhooks": {"secrets": ["c2hvcnQ="]}},
    ):
        credentials = HttpSinkConfig.model_validate({"url": "https://h/", "credentials": given}).credentials
        assert credentials is not None
        signer = credentials.hmac or credentials.standard_webhooks
        assert signer is not None
        assert "the secret has 5 bytes only" in next(iter(signer.warnings()))[1]
