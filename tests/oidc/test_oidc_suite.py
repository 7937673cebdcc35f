"""The suite that every authenticator passes."""

from __future__ import annotations

import json

import pytest
from gateway_testing.suites import AuthenticatorSuite, Kit, request

from gateway_core.contract.authenticator import Authenticator
from gateway_core.contract.event import Message
from tests.oidc.issuer import AUDIENCE, ec_key, encoded, signed

KEY = ec_key("k1")
CLAIMS = {"iss": "https://login.example", "aud": AUDIENCE, "sub": "orders", "exp": 4e9}
VALID = signed(CLAIMS, KEY, "ES256")


def bearer(token: str) -> Message:
    return request({"authorization": f"Bearer {token}"})


@pytest.mark.spec("AC-06", "OI-01")
class TestOidc(AuthenticatorSuite):
    known = [
        (bearer(VALID), "orders"),
        (bearer(signed({**CLAIMS, "sub": "billing"}, KEY, "ES256")), "billing"),
        (bearer(VALID), "orders"),
    ]
    strangers = [
        bearer(VALID[:-8] + "AAAAAAAA"),
        bearer(signed({**CLAIMS, "aud": "another"}, KEY, "ES256")),
        bearer(signed(CLAIMS, ec_key("k1"), "ES256")),
        bearer(f"{encoded({'alg': 'none'})}.{encoded(CLAIMS)}."),
        request({"authorization": "Bearer x", "Authorization": f"Bearer {VALID}"}),
    ]

    def build(self, kit: Kit) -> Authenticator:
        file = kit.folder / "keys.json"
        file.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
        return kit.authenticator("oidc", {"issuer": CLAIMS["iss"], "audience": AUDIENCE, "jwks_file": str(file)})
