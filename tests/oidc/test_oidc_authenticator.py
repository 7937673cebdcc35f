"""The authenticator: what it makes of a request, what it remembers, and that it works in a whole gateway."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_oidc import authenticator as module
from gateway_oidc.authenticator import OidcAuthenticator
from gateway_oidc.config import OidcConfig
from gateway_testing.clock import FakeClock
from gateway_testing.process import GatewayProcess

from gateway_core.config.registry import Registry
from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity
from tests import web
from tests.oidc.issuer import AUDIENCE, OwnIssuer, ec_key
from tests.oidc.provider import CLIENT, login, provider

pytestmark = pytest.mark.anyio


@pytest.fixture
def issuer() -> Iterator[OwnIssuer]:
    made = OwnIssuer(ec_key("k1"))
    yield made
    made.stop()


class Tokens:
    """An authenticator whose clock a test moves. `checked` counts the signatures that it verified."""

    def __init__(self, own: OwnIssuer, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.own = own
        self.clock = FakeClock()
        self.file = folder / "keys.json"
        self.publish()
        config = OidcConfig(**{"issuer": own.url, "audience": AUDIENCE, "jwks_file": self.file, **options})
        context = BuildContext("a test", folder, self.clock, Registry())
        self.made = OidcAuthenticator(config, context)
        self.checked = 0
        verify = self.made._verifier.verify

        def counted(token: bytes) -> Any:
            self.checked += 1
            return verify(token)

        monkeypatch.setattr(self.made._verifier, "verify", counted)

    def publish(self) -> None:
        self.file.write_text(json.dumps(self.own.key_set()))

    def token(self, **changes: Any) -> str:
        now = self.clock.now_ns() // 10**9
        return self.own.token(**{"iat": now, "exp": now + 600, **changes})

    async def who(self, *headers: tuple[bytes, bytes]) -> Identity | None:
        """As the gate asks: who is recognized is not looked at again."""
        message = Message(list(headers), b"")
        if (known := self.made.recognize(message)) is not None:
            return known
        found = self.made.authenticate(message)
        return found if found is None or isinstance(found, Identity) else await found

    async def bearer(self, token: str, scheme: bytes = b"Bearer ") -> Identity | None:
        return await self.who((b"host", b"x"), (b"authorization", scheme + token.encode()))


@pytest.mark.spec("OI-01", "OI-05")
async def test_a_token_names_the_sender(issuer: OwnIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens(issuer, tmp_path, monkeypatch)
    async with anyio.create_task_group() as tasks:
        await tokens.made.start(tasks)
        token = tokens.token(team="shop")
        for scheme in (b"Bearer ", b"bearer ", b"BEARER  "):
            who = await tokens.bearer(token, scheme)
            assert who is not None
            assert (who.subject, who.authenticator, who.type) == ("orders", "oidc", "user")
            assert who.claims["team"] == "shop"
        account = await tokens.bearer(tokens.token(sub="system:serviceaccount:default:orders"))
        assert account is not None
        assert account.type == "service_account"
        for headers in ([], [(b"authorization", b"Basic YTpi")], [(b"authorization", b"Bearer")]):
            assert await tokens.who(*headers) is None
        with pytest.raises(Unauthenticated, match="more than one"):
            await tokens.who((b"authorization", b"Basic YTpi"), (b"authorization", b"Bearer " + token.encode()))
        assert tokens.made.info()["keys"] == ["k1"]
        await tokens.made.stop()


@pytest.mark.spec("OI-10")
async def test_a_valid_token_is_verified_once(
    issuer: OwnIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 10)
    tokens = Tokens(issuer, tmp_path, monkeypatch, clock_skew_s=30)
    async with anyio.create_task_group() as tasks:
        await tokens.made.start(tasks)
        first = tokens.token()
        for _ in range(5):
            assert await tokens.bearer(first)
        assert tokens.checked == 1
        for number in range(100):  # others come, and this one is still in use
            assert await tokens.bearer(tokens.token(sub=f"s{number}"))
            assert await tokens.bearer(first)
        assert tokens.checked == 101
        assert len(tokens.made._seen) + len(tokens.made._seen_before) <= 20
        for _ in range(2):  # wrong ones are not remembered
            with pytest.raises(Unauthenticated):
                await tokens.bearer(first[:-4] + "AAAA")
        assert tokens.checked == 103
        tokens.clock.advance(620)
        assert await tokens.bearer(first), "within the clock skew"
        tokens.clock.advance(11)
        with pytest.raises(Unauthenticated, match="expired"):
            await tokens.bearer(first)
        await tokens.made.stop()


@pytest.mark.spec("OI-10")
async def test_a_token_is_forgotten_with_its_key(
    issuer: OwnIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens(issuer, tmp_path, monkeypatch, refresh_s=60)
    async with anyio.create_task_group() as tasks:
        await tokens.made.start(tasks)
        token = tokens.token(exp=int(9e9))
        assert await tokens.bearer(token)
        stays = ec_key("k2")
        issuer.keys.append(stays)
        tokens.publish()
        other = tokens.own.token(stays, exp=int(9e9), iat=None)
        assert await tokens.bearer(other)
        assert await tokens.bearer(token)
        assert tokens.checked == 2
        issuer.keys = [ec_key("k1"), stays]  # another key with the same name
        tokens.publish()
        with anyio.fail_after(60):
            while len(tokens.made._seen) > 1:
                tokens.clock.advance(60)
                await anyio.sleep(0.01)
        assert await tokens.bearer(other)
        assert tokens.checked == 2
        with pytest.raises(Unauthenticated, match="signature is wrong"):
            await tokens.bearer(token)
        await tokens.made.stop()


@pytest.mark.spec("OI-01", "OI-07")
def test_tokens_of_a_real_provider(processes: None, tmp_path: Path) -> None:
    """A login at a provider, and events with its token to a gateway of its own."""
    with provider(tmp_path) as issuer:
        oidc = f"oidc: {{issuer: '{issuer}', audience: {CLIENT}, claims: {{email: alice}}}}"
        config = f"brokers: {{default: {{ingress: [{{http: {{listen: '127.0.0.1:0', authenticate: [{oidc}]}}}}]}}}}"
        event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
        alice, bob = login(issuer, "alice"), login(issuer, "bob")
        with (
            GatewayProcess(config, tmp_path) as gateway,
            web.client(timeout=60, headers=event, verify=False) as client,
        ):

            def send(token: str) -> int:
                return client.post(gateway.ingress(), headers={"authorization": f"Bearer {token}"}).status_code

            assert [send(alice), send(alice), send(bob), send(alice[:-8] + "AAAAAAAA")] == [202, 202, 401, 401]
            assert gateway.status()["brokers"][0]["accepted"] == 2
            assert alice not in gateway.log()
            assert gateway.stop() == 0
        assert "eyJ" not in gateway.log()


@pytest.mark.spec("OI-14")
def test_the_status_says_which_keys_are_known(processes: None, tmp_path: Path) -> None:
    issuer = OwnIssuer(ec_key("k1"), ec_key("k2"))
    oidc = f"oidc: {{issuer: '{issuer.url}', audience: {AUDIENCE}, refresh_s: 0.2}}"
    config = f"brokers: {{default: {{ingress: [{{http: {{listen: '127.0.0.1:0', authenticate: [{oidc}]}}}}]}}}}"
    try:
        with GatewayProcess(config, tmp_path) as gateway:

            def state() -> dict[str, Any]:
                (source,) = gateway.status()["brokers"][0]["sources"]
                assert source["error"] is None
                found: dict[str, Any] = source["authenticate"]["0 oidc"]
                return found

            gateway.wait_until(lambda: state()["keys"] == ["k1", "k2"], 60, "the keys")
            assert state()["issuer"] == issuer.url
            assert datetime.now(UTC) - datetime.fromisoformat(state()["keys_read"]) < timedelta(minutes=10)
            assert state()["error"] is None
            issuer.stop()
            gateway.wait_until(lambda: state()["error"], 60, "the error")
            assert "does not answer" in state()["error"]
            assert state()["keys"] == ["k1", "k2"]
    finally:
        issuer.stop()


@pytest.mark.spec("OI-09")
def test_a_reload_with_the_issuer_away_goes_on_with_its_keys(processes: None, tmp_path: Path) -> None:
    issuer = OwnIssuer(ec_key("k1"))
    oidc = f"oidc: {{issuer: '{issuer.url}', audience: {AUDIENCE}}}"
    config = (
        f"brokers: {{default: {{ingress: [{{http: {{listen: '127.0.0.1:0', path: /a, authenticate: [{oidc}]}}}}]}}}}"
    )
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    headers["authorization"] = f"Bearer {issuer.token()}"
    try:
        with (
            GatewayProcess(config, tmp_path) as gateway,
            web.client(timeout=60, headers=headers, verify=False) as client,
        ):
            url = gateway.ingress()
            assert client.post(url).status_code == 202
            issuer.stop()
            gateway.config.write_text(config.replace("/a", "/b"))
            renewed = url.removesuffix("a") + "b"
            answers: list[int] = []
            gateway.wait_until(lambda: answers.append(client.post(renewed).status_code) or answers[-1] != 404, 60)
            assert answers[-1] == 202, gateway.log()
    finally:
        issuer.stop()


ROTATIONS = 3


@pytest.mark.spec("OI-11")
def test_keys_rotate_under_load(real_time: None, processes: None, tmp_path: Path) -> None:
    """Each event has a new token. The issuer signs with a new key at once, and withdraws the old one later."""
    issuer = OwnIssuer(ec_key("k0"))
    kept = tmp_path / "events.jsonl"
    config = (
        f"brokers: {{default: {{ingress: [{{http: {{listen: '127.0.0.1:0', authenticate: [oidc: "
        f"{{issuer: '{issuer.url}', audience: {AUDIENCE}, refresh_s: 0.5}}]}}}}]}}}}\n"
        f"triggers: {{all: {{subscriber: {{file: {{path: '{kept}'}}}}}}}}"
    )
    answers: list[int] = []
    numbers, over = itertools.count(), threading.Event()

    using: dict[int, Any] = {}

    def send(sender: int, url: str) -> None:
        with web.client(timeout=60, verify=False) as client:
            while not over.is_set():
                number, key = next(numbers), issuer.keys[0]
                using[sender] = key
                headers = {"ce-specversion": "1.0", "ce-id": f"{number}", "ce-source": "/s", "ce-type": "t"}
                headers["authorization"] = f"Bearer {issuer.token(key, sub=f's{number % 50}')}"
                answers.append(client.post(url, headers=headers).status_code)

    def more(count: int) -> None:
        wanted = len(answers) + count
        gateway.wait_until(lambda: len(answers) >= wanted, 60, "more answers")

    try:
        with GatewayProcess(config, tmp_path) as gateway:
            senders = [threading.Thread(target=send, args=(n, gateway.ingress())) for n in range(4)]
            for sender in senders:
                sender.start()
            try:
                for rotation in range(1, ROTATIONS + 1):
                    more(100)
                    issuer.keys = [ec_key(f"k{rotation}"), *issuer.keys]
                    more(100)
                    gateway.wait_until(lambda: not any(k in issuer.keys[1:] for k in using.values()), 60, "new tokens")
                    del issuer.keys[1:]
                more(100)
            finally:
                over.set()
                for sender in senders:
                    sender.join()
            gateway.wait_until(lambda: gateway.drained(), 60, "all deliveries")
            assert set(answers) == {202}, gateway.log()
            assert gateway.status()["brokers"][0]["accepted"] == len(answers)
            ids = {json.loads(line)["id"] for line in kept.read_text().splitlines()}
            assert ids == {str(number) for number in range(len(answers))}
            assert gateway.stop() == 0
    finally:
        issuer.stop()
