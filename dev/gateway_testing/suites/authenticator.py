"""What every authenticator must do (`gateway_core.contract.authenticator.Authenticator`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import suppress

import anyio
import pytest

from gateway_core.contract.authenticator import Authenticator, Unauthenticated
from gateway_core.contract.errors import Overloaded, Refused
from gateway_core.contract.event import Message
from gateway_core.contract.identity import ANONYMOUS, Identity
from gateway_core.contract.peer import Peer

from .kit import Kit, Suite

_CE = ((b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"))


def request(headers: dict[str, str | bytes] | None = None, body: bytes = b"{}", url: str = "/") -> Message:
    """A request of a client without a certificate at 192.0.2.7."""
    sent = [(n.lower().encode(), v if isinstance(v, bytes) else v.encode()) for n, v in (headers or {}).items()]
    message = Message([(b"host", b"example.com"), *_CE, *sent], body, None, "POST", url)
    message.peer = Peer("192.0.2.7:40000")
    return message


_ODD = {
    "empty": b"",
    "a space": b" ",
    "a scheme": b"Bearer ",
    "not UTF-8": b"\xff\xfe",
    "NUL": b"a\0b",
    "dots": b"Bearer ..",
    "huge": b"Bearer " + b"A" * 60_000,
    "not base64": b"Basic \xc3\xbc",
    "a comma": b"a=1,v1=,t=",
}


class AuthenticatorSuite(Suite):
    """Subclass it, write `build`, and list requests (`request(headers, body, url)`):

    class TestMine(AuthenticatorSuite):
        def build(self, kit):
            return kit.authenticator("mine", {"header": "x-token", "token": "s3cret"})

        known = [(request({"x-token": "s3cret"}), "mine")]
        strangers = [request({"x-token": "wrong"})]

    `known` has senders with their subjects, `strangers` wrong credentials, and `headers` the headers that credentials
    come in.
    """

    known: Sequence[tuple[Message, str]] = ()
    strangers: Sequence[Message] = ()
    headers: Sequence[str] = ("authorization",)

    def build(self, kit: Kit) -> Authenticator:
        raise NotImplementedError

    @pytest.fixture
    async def authenticator(self, kit: Kit) -> AsyncIterator[Authenticator]:
        built = self.build(kit)
        async with anyio.create_task_group() as tasks:
            await built.start(tasks)
            yield built
            await built.stop()
            tasks.cancel_scope.cancel()

    @pytest.mark.anyio
    async def test_it_knows_its_senders(self, authenticator: Authenticator) -> None:
        assert self.known, "list requests of known senders"
        for message, subject in self.known:
            found = await _found(authenticator, message)
            assert found is not None, "a known sender is a stranger"
            assert found.subject == subject
            assert found.authenticator, "the identity does not name its authenticator"
            assert found.subject != ANONYMOUS.subject

    @pytest.mark.anyio
    async def test_it_refuses_wrong_credentials(self, authenticator: Authenticator) -> None:
        assert self.strangers, "list requests with wrong credentials"
        for message in self.strangers:
            with pytest.raises(Unauthenticated):
                await _found(authenticator, message)

    @pytest.mark.anyio
    async def test_it_leaves_requests_without_credentials_to_others(self, authenticator: Authenticator) -> None:
        assert await _found(authenticator, request()) is None

    @pytest.mark.anyio
    @pytest.mark.parametrize("odd", _ODD.values(), ids=_ODD)
    async def test_whatever_comes_is_no_identity(self, authenticator: Authenticator, odd: bytes) -> None:
        """An error of any other type would make the gateway answer 503 although the sender is at fault."""
        for name in self.headers:
            message = request({name: odd})
            with suppress(Refused, Overloaded):
                assert await _found(authenticator, message) is None

    @pytest.mark.anyio
    async def test_a_refusal_repeats_no_credential(self, authenticator: Authenticator) -> None:
        for message in self.strangers:
            with pytest.raises(Refused) as refused:
                await _found(authenticator, message)
            said = f"{refused.value} {refused.value.detail} {refused.value.headers}"
            secrets = [v.decode("latin-1") for n, v in message.headers if n.decode() in self.headers and len(v) > 3]
            assert [secret for secret in secrets if secret in said] == []

    @pytest.mark.anyio
    async def test_it_does_not_change_the_request(self, authenticator: Authenticator) -> None:
        for message in [*(message for message, _ in self.known), *self.strangers]:
            before = list(message.headers), message.body, message.url
            with suppress(Refused, Overloaded):
                await _found(authenticator, message)
            assert (message.headers, message.body, message.url) == before

    @pytest.mark.anyio
    async def test_its_challenge_is_a_header_value(self, authenticator: Authenticator) -> None:
        challenge = authenticator.challenge
        assert challenge.isascii()
        assert not challenge or challenge.isprintable()


async def _found(authenticator: Authenticator, message: Message) -> Identity | None:
    found = authenticator.authenticate(message)
    return await found if isinstance(found, Awaitable) else found
