"""`AuthenticatorSuite`, on an authenticator that is right, and with planted faults: each fails the test about it."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
from anyio.abc import TaskGroup
from gateway_testing.suites import AuthenticatorSuite, Kit, request

from gateway_core.contract.authenticator import Authenticator, Unauthenticated
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity

pytestmark = pytest.mark.anyio

TOKEN = "0123456789abcdef"


class Shared:
    """Knows a token. `fault` names what it does wrong; "" for nothing."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.challenge = "Bearer\n" if fault == "breaks the header" else "Bearer"

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def authenticate(self, request: Message) -> Identity | Awaitable[Identity | None] | None:
        sent, fault = request.header(b"authorization"), self.fault
        if sent is None:
            if fault == "refuses a request without credentials":
                raise Unauthenticated("no credentials")
            return None
        if fault == "raises on odd text":
            sent.decode()
        if fault == "changes the request":
            request.headers.clear()
        if sent != f"Bearer {TOKEN}".encode() and fault != "knows everybody":
            raise Unauthenticated(f"{sent!r} is wrong" if fault == "repeats the token" else "wrong")
        return self._later() if fault == "" else Identity("x" if fault == "mixes them up" else "shop", "shared")

    async def _later(self) -> Identity:
        return Identity("shop", "shared")


@pytest.mark.spec("AC-06")
class TestShared(AuthenticatorSuite):
    known = [(request({"authorization": f"Bearer {TOKEN}"}), "shop")]
    strangers = [request({"authorization": "Bearer wrong"})]

    def build(self, kit: Kit) -> Authenticator:
        return Shared("")


FAULTS = {
    "breaks the header": "its_challenge_is_a_header_value",
    "refuses a request without credentials": "it_leaves_requests_without_credentials_to_others",
    "raises on odd text": "whatever_comes_is_no_identity",
    "changes the request": "it_does_not_change_the_request",
    "knows everybody": "it_refuses_wrong_credentials",
    "repeats the token": "a_refusal_repeats_no_credential",
    "mixes them up": "it_knows_its_senders",
}


@pytest.mark.spec("AC-06")
@pytest.mark.parametrize(("fault", "name"), FAULTS.items())
async def test_a_planted_fault_is_found(fault: str, name: str) -> None:
    test = getattr(TestShared(), f"test_{name}")
    odd = (b"\xff\xfe",) if name == "whatever_comes_is_no_identity" else ()
    with pytest.raises((AssertionError, UnicodeDecodeError, Unauthenticated, pytest.fail.Exception)):
        await test(Shared(fault), *odd)
