"""The contract of authenticators, on `api_key` and `basic`."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec
from gateway_auth.keys import Key
from gateway_auth.passwords import hash_of, set_password
from gateway_testing.suites import AuthenticatorSuite, Kit, request

from gateway_core.contract.authenticator import Authenticator
from tests.auth.rig import basic

KEY, EXPIRED = ("tgk_" + 12 * digit + "_" + 43 * "A" for digit in "01")


def keys(folder: Path) -> Path:
    """A file with both keys."""
    file, past = folder / "keys.json", datetime(2026, 1, 1, tzinfo=UTC)
    known = [
        Key(k[4:16], "billing", sha256(k.encode()).hexdigest(), past, past if k == EXPIRED else None)
        for k in (KEY, EXPIRED)
    ]
    file.write_bytes(msgspec.json.encode({"keys": known}))
    return file


class TestApiKey(AuthenticatorSuite):
    headers = ("x-api-key",)
    known = [(request({"x-api-key": KEY}), "key billing")]
    strangers = [
        request({"x-api-key": KEY[:-1] + "B"}),
        request({"x-api-key": EXPIRED}),
        request({"x-api-key": KEY + KEY}),
    ]

    def build(self, kit: Kit) -> Authenticator:
        return kit.authenticator("api_key", {"file": keys(kit.folder)})


class TestApiKeyElsewhere(AuthenticatorSuite):
    known = [
        (request({"authorization": f"Bearer {KEY}"}), "key billing"),
        (request(url=f"/events?key={KEY}"), "key billing"),
    ]
    strangers = [
        request({"authorization": f"Bearer {KEY}"}, url=f"/events?key={KEY}"),
        request({"authorization": f"Bearer {EXPIRED}"}),
        request(url="/events?key=abcdef"),
    ]

    def build(self, kit: Kit) -> Authenticator:
        return kit.authenticator("api_key", {"file": keys(kit.folder), "bearer": True, "query": "key"})


class TestBasic(AuthenticatorSuite):
    known = [(request(dict([basic("ann", "right")])), "user ann")]
    strangers = [request(dict([basic("ann", "wrong")])), request(dict([basic("bob", "right")]))]

    def build(self, kit: Kit) -> Authenticator:
        set_password(kit.folder / "users.json", "ann", hash_of(b"right", 4))
        return kit.authenticator("basic", {"file": kit.folder / "users.json"})
