"""The authenticator `standard_webhooks`, with the official library as the sender."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.errors import StartError
from tests.auth.signing import NOW, Bench, Headers
from tests.budget import examples

pytestmark = pytest.mark.spec("HM-11")

SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()
PRIVATE = Ed25519PrivateKey.from_private_bytes(b"p" * 32)
PUBLIC = "whpk_" + base64.b64encode(PRIVATE.public_key().public_bytes_raw()).decode()
AT = datetime.fromtimestamp(NOW, UTC)


def signed(
    body: bytes, *secrets: str, id: str = "msg_1", at: datetime = AT, prefix: str = "webhook-"
) -> dict[str, str]:
    signatures = [Webhook(secret).sign(id, at, body.decode()) for secret in secrets or (SECRET,)]
    return named(id, at, " ".join(signatures), prefix)


def named(id: str, at: datetime, signature: str, prefix: str = "webhook-") -> dict[str, str]:
    stamp = str(int(at.timestamp()))
    return {f"{prefix}id": id, f"{prefix}timestamp": stamp, f"{prefix}signature": signature}


def asymmetric(body: bytes, id: str = "msg_1", at: datetime = AT) -> str:
    content = b"%s.%d.%s" % (id.encode(), int(at.timestamp()), body)
    return "v1a," + base64.b64encode(PRIVATE.sign(content)).decode()


@given(st.text(max_size=200).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)))
@examples(60)
def test_what_the_library_signs_is_accepted_and_nothing_else(text: str) -> None:
    body = text.encode()
    bench = Bench("standard_webhooks", {"secrets": [SECRET]})
    assert bench.subject(signed(body), body) == "webhooks standard_webhooks"
    with pytest.raises(Unauthenticated):
        bench.subject(signed(body), body + b" ")
    with pytest.raises(Unauthenticated):
        bench.subject(signed(body, OTHER), body)


def test_the_library_verifies_what_the_authenticator_accepts() -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    headers = signed(b'{"a":1}', OTHER, SECRET, at=now)
    assert Webhook(SECRET).verify(b'{"a":1}', headers) == {"a": 1}
    bench = Bench("standard_webhooks", {"secrets": [SECRET], "name": "shop"}, int(now.timestamp()))
    assert bench.subject(headers, b'{"a":1}') == "webhooks shop"


def test_public_keys() -> None:
    bench = Bench("standard_webhooks", {"secrets": [PUBLIC]})
    assert bench.subject(named("msg_1", AT, asymmetric(b"{}")), b"{}")
    both = f"{signed(b'{}')['webhook-signature']} v2,AAAA nonsense {asymmetric(b'{}')}"
    assert bench.subject(named("msg_1", AT, both), b"{}")
    for wrong in (asymmetric(b"{ }"), asymmetric(b"{}")[:-4], "v1a,", asymmetric(b"{}").replace("v1a", "v1")):
        with pytest.raises(Unauthenticated):
            bench.subject(named("msg_1", AT, wrong), b"{}")


def test_secrets_of_both_kinds_and_while_one_replaces_another() -> None:
    bench = Bench("standard_webhooks", {"secrets": [OTHER, SECRET.removeprefix("whsec_"), PUBLIC]})
    for headers in (signed(b"{}"), signed(b"{}", OTHER), named("msg_1", AT, asymmetric(b"{}"))):
        assert bench.subject(headers, b"{}")


def test_other_names_of_the_header_fields() -> None:
    bench = Bench("standard_webhooks", {"secrets": [SECRET], "header_prefix": "svix-"})
    assert bench.subject(signed(b"{}", prefix="svix-"), b"{}")
    assert bench.subject(signed(b"{}"), b"{}") is None


def _without(name: str) -> dict[str, str]:
    return {key: value for key, value in signed(b"{}").items() if key != name}


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        (signed(b"{}", at=AT - timedelta(seconds=301)), "too far"),
        (signed(b"{}", at=AT + timedelta(seconds=301)), "too far"),
        ({**signed(b"{}"), "webhook-timestamp": "1e9"}, "not a number"),
        ({**signed(b"{}"), "webhook-id": "msg_2"}, "no signature fits"),
        (signed(b"{}", id="msg.1"), "contains a dot"),
        (_without("webhook-id"), "is missing"),
        (_without("webhook-timestamp"), "is missing"),
        ({**signed(b"{}"), "webhook-signature": ""}, "no signature fits"),
        ({**signed(b"{}"), "webhook-signature": "v1," + "A" * 44}, "no signature fits"),
        ({**signed(b"{}"), "webhook-signature": signed(b"{}")["webhook-signature"][:-8]}, "no signature fits"),
        ({**signed(b"{}"), "webhook-signature": "v1,x " * 40 + signed(b"{}")["webhook-signature"]}, "no signature"),
        ([*signed(b"{}").items(), ("webhook-signature", "v1,AAAA")], "twice"),
        ([*signed(b"{}").items(), ("webhook-id", "msg_2")], "twice"),
    ],
)
def test_what_is_not_accepted(headers: Headers, says: str) -> None:
    with pytest.raises(Unauthenticated, match=says) as error:
        Bench("standard_webhooks", {"secrets": [SECRET]}).subject(headers, b"{}")
    assert error.value.status == 401


@pytest.mark.spec("HM-09")
def test_a_replay_is_remembered_if_asked() -> None:
    bench = Bench("standard_webhooks", {"secrets": [OTHER, SECRET], "remember": 10})
    assert bench.subject(signed(b"{}", OTHER, SECRET), b"{}")
    with pytest.raises(Unauthenticated, match="has come before"):
        bench.subject(signed(b"{}"), b"{}")
    assert bench.subject(signed(b"{}", at=AT + timedelta(seconds=5)), b"{}"), "another attempt of the sender"


@pytest.mark.spec("HM-10")
@pytest.mark.parametrize(
    ("secret", "fault"),
    [
        ("whsk_" + base64.b64encode(b"x" * 32).decode(), "private key"),
        ("whsec_not base64", "not base64"),
        ("whsec_", "empty"),
        ("whpk_" + base64.b64encode(b"x" * 31).decode(), "32 bytes"),
    ],
)
def test_wrong_secrets_are_faults(secret: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Bench("standard_webhooks", {"secrets": [secret]})


@pytest.mark.spec("HM-10")
def test_short_secrets_are_warned_of() -> None:
    short = "whsec_" + base64.b64encode(b"x" * 23).decode()
    options: dict[str, Any] = {"secrets": [SECRET, short, PUBLIC]}
    assert Bench("standard_webhooks", options).warned() == [
        "the secret has 23 bytes only: it can be guessed from one signed request"
    ]


@pytest.mark.spec("HM-10")
def test_files_that_can_not_be_used_are_named(tmp_path: Any) -> None:
    file = tmp_path / "hook"
    options = {"secret_files": [str(file)]}
    Bench("standard_webhooks", options, offline=True)
    for content, says in [
        (None, "can't be read"),
        (b" \n\n", "is empty"),
        (b"\xff", "not text"),
        (b"whsk_aaaa", "private"),
    ]:
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(StartError, match=says):
            Bench("standard_webhooks", options)
    file.write_text(SECRET + "\n")
    assert Bench("standard_webhooks", options).subject(signed(b"{}"), b"{}")
