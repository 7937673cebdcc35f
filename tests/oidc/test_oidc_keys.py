"""Where keys come from, when they are fetched, and what faults of the issuer do."""

from __future__ import annotations

import gzip
import json
import logging
import re
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
import trustme
from gateway_oidc.config import OidcConfig
from gateway_oidc.issuer import MOST_BYTES, IssuerFault
from gateway_oidc.keys import Algorithms
from gateway_oidc.keystore import EXTRA_READ_S, EXTRA_READS, KeyStore
from gateway_oidc.verifier import TokenRejected, TokenVerifier, Verified
from gateway_testing.clock import FakeClock

from gateway_core.contract.clock import Clock, SystemClock
from gateway_core.contract.errors import Overloaded, StartError
from tests.faults.proxy import Proxy
from tests.oidc.issuer import AUDIENCE, OwnIssuer, answer, ec_key, signed

pytestmark = pytest.mark.anyio


@pytest.fixture
def issuer() -> Iterator[OwnIssuer]:
    made = OwnIssuer(ec_key("k1"))
    yield made
    made.stop()


class Frozen(FakeClock):
    """Moves only when told, and starts now, so that tokens are valid."""

    def now_ns(self) -> int:
        return SystemClock.now_ns()


@asynccontextmanager
async def verifying(own: OwnIssuer, clock: Clock | None = None, **options: Any) -> AsyncIterator[TokenVerifier]:
    """A verifier that has begun to fetch keys."""
    given = {"issuer": own.url, "audience": AUDIENCE, "timeout_s": 30, **options}
    made = TokenVerifier(OidcConfig(**given), clock or SystemClock(), "a test")
    async with anyio.create_task_group() as tasks:
        await made.start(tasks)
        yield made
        await made.stop()


async def verified(made: TokenVerifier, token: str) -> Verified:
    found = made.verify(token.encode())
    return found if isinstance(found, Verified) else await found


async def until(condition: Callable[[], Any]) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def raised(call: Awaitable[Any]) -> str:
    """What a token is refused with."""
    try:
        await call
    except TokenRejected as e:
        return str(e)
    except Overloaded as e:
        return f"503: {e}"
    return "valid"


AWAY = "503: the issuer's keys are not available"
UNKNOWN = "the token is signed with a key that the issuer does not publish"


@pytest.mark.spec("OI-07")
async def test_keys_are_found_by_discovery(issuer: OwnIssuer) -> None:
    async with verifying(issuer) as made:
        assert (await verified(made, issuer.token())).subject == "orders"
        assert (await made.metadata())["jwks_uri"] == f"{issuer.url}/keys"
        assert isinstance(made.verify(issuer.token(sub="x").encode()), Verified)  # now the key is known
        assert made.store.info()["keys"] == ["k1"]
    assert issuer.asked[:2] == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.spec("OI-07")
async def test_keys_at_a_url_need_no_discovery(issuer: OwnIssuer) -> None:
    async with verifying(issuer, issuer="orders.example", jwks_url=f"{issuer.url}/keys") as made:
        assert (await verified(made, issuer.token(iss="orders.example"))).subject == "orders"
    assert issuer.asked == ["/keys"]


@pytest.mark.spec("OI-07")
async def test_keys_in_a_file_may_change(issuer: OwnIssuer, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(issuer.key_set()))
    async with verifying(issuer, jwks_file=file) as made:
        old = issuer.token()
        assert (await verified(made, old)).subject == "orders"
        issuer.keys = [ec_key("k2")]
        file.write_text(json.dumps(issuer.key_set()))
        assert (await verified(made, issuer.token())).subject == "orders"
        assert await raised(verified(made, old)) == UNKNOWN
    assert issuer.asked == []


@pytest.mark.spec("OI-07")
async def test_a_key_that_is_taken_out_of_a_file_counts_no_longer(issuer: OwnIssuer, tmp_path: Path) -> None:
    """Nothing asks for it, and `refresh_s` is far away."""
    file, clock = tmp_path / "keys.json", Frozen()
    file.write_text(json.dumps(issuer.key_set()))
    async with verifying(issuer, clock, jwks_file=file) as made:
        old = issuer.token()
        assert await raised(verified(made, old)) == "valid"
        issuer.keys = [ec_key("k2")]
        for text in ("{", json.dumps(issuer.key_set())):  # a broken file leaves the keys in use
            (tmp_path / "new").write_text(text)
            (tmp_path / "new").replace(file)
            read = made.store._ended
            clock.advance(2)
            await until(lambda read=read: made.store._ended > read)  # type: ignore[misc]
            assert await raised(verified(made, old)) == ("valid" if text == "{" else UNKNOWN)
        read = made.store._ended
        clock.advance(60)
        await anyio.wait_all_tasks_blocked()
        assert made.store._ended == read, "a file that is the same is not read"


@pytest.mark.spec("OI-08")
async def test_a_file_that_everyone_may_write_to_is_not_trusted(issuer: OwnIssuer, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(issuer.key_set()))
    file.chmod(0o666)
    with pytest.raises(ExceptionGroup) as refusal:
        async with verifying(issuer, jwks_file=file):
            pass
    assert refusal.group_contains(StartError, match="every user may write to it")


@pytest.mark.spec("OI-08")
@pytest.mark.parametrize("options", [{"jwks_file": Path("/nowhere/keys")}, {"ca_file": Path("/nowhere/ca")}])
async def test_a_file_that_is_not_there_stops_the_start(issuer: OwnIssuer, options: dict[str, Any]) -> None:
    with pytest.raises(ExceptionGroup) as refusal:
        async with verifying(issuer, **options):
            pass
    assert refusal.group_contains(StartError, match=r"a test\.\w+_file: .*No such file")


@pytest.mark.slow
@pytest.mark.spec("OI-08")
async def test_tls_is_verified_and_a_token_for_the_issuer_sent(issuer: OwnIssuer, tmp_path: Path) -> None:
    ca, sent = trustme.CA(), []
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "token").write_text("secret\n")
    issuer.stop()
    issuer.tls = tls
    issuer.start()

    def authorized(request: BaseHTTPRequestHandler) -> bool:
        sent.append(request.headers["authorization"])
        return False

    issuer.fault = authorized
    async with verifying(issuer, ca_file=tmp_path / "ca.pem", bearer_file=tmp_path / "token") as made:
        assert (await verified(made, issuer.token())).subject == "orders"
    assert sent == ["Bearer secret"] * 2
    sent.clear()
    clock, other = Frozen(), trustme.CA()
    async with verifying(issuer, clock, ca_file=tmp_path / "ca.pem", refresh_s=60) as made:
        assert (await verified(made, issuer.token())).subject == "orders"
        other.cert_pem.write_to_path(tmp_path / "ca.pem")  # another authority, under the same name
        await until(lambda: clock.advance(60) or made.store.error)
        assert "certificate verify failed" in str(made.store.error)
        ca.cert_pem.write_to_path(tmp_path / "ca.pem")
        await until(lambda: clock.advance(60) or made.store.error is None)
    sent.clear()
    async with verifying(issuer) as made:
        await until(lambda: made.store.error)
        assert "certificate verify failed" in str(made.store.error)
        assert await raised(verified(made, issuer.token())) == AWAY
    assert sent == []


def slowly(release: threading.Event) -> Callable[[BaseHTTPRequestHandler], bool]:
    def wait(request: BaseHTTPRequestHandler) -> bool:
        release.wait(60)
        return False

    return wait


def dripping(request: BaseHTTPRequestHandler) -> bool:
    """One byte after the other: each within a time limit for one."""
    request.send_response(200)
    request.end_headers()
    for _ in range(600):
        request.wfile.write(b" ")
        request.wfile.flush()
        threading.Event().wait(0.05)
    return True


def endless(request: BaseHTTPRequestHandler) -> bool:
    request.send_response(200)
    request.end_headers()
    for _ in range(64):
        request.wfile.write(b" " * (MOST_BYTES // 16))
    return True


def metadata(**changes: Any) -> Callable[[BaseHTTPRequestHandler], bool]:
    def changed(request: BaseHTTPRequestHandler) -> bool:
        url = f"http://{request.headers['host']}"
        return answer(request, json.dumps({"issuer": url, "jwks_uri": f"{url}/keys", **changes}))

    return changed


FAULTS: dict[str, tuple[Callable[[BaseHTTPRequestHandler], bool], str]] = {
    "an error": (lambda r: answer(r, "{}", 500), "answered 500"),
    "a redirect": (lambda r: answer(r, "", 302, location="/keys"), "answered 302"),
    "a page": (lambda r: answer(r, "<html>"), "answered no JSON object"),
    "a list": (lambda r: answer(r, "[]"), "answered no JSON object"),
    "a deep list": (lambda r: answer(r, b'{"a": ' + b"[" * 100_000), "answered no JSON object"),
    "endless": (endless, f"answered more than {MOST_BYTES} bytes"),
    "one byte after the other": (dripping, "did not answer within 0.5 s"),
    "compressed": (
        lambda r: answer(r, gzip.compress(b"{}"), content_encoding="gzip"),
        "a content coding that was not asked for",
    ),
    "another issuer": (metadata(issuer="https://evil.example"), "is about the issuer https://evil.example"),
    "an issuer to mislead": (metadata(issuer="x\n\x1b[2J"), r"is about the issuer x \\x1b\[2J"),
    "no issuer": (metadata(issuer=None), "is about the issuer None"),
    "no keys": (metadata(jwks_uri=None), "has no `jwks_uri`"),
    "keys without TLS": (metadata(jwks_uri="http://10.0.0.1/keys"), "must start with https://"),
    "keys in a file": (metadata(jwks_uri="file:///etc/passwd"), "must be a URL"),
    "a broken answer": (lambda r: bool(r.wfile.write(b"nonsense\r\n\r\n")) or True, "does not answer: "),
}


@pytest.mark.slow
@pytest.mark.spec("OI-08", "OI-09")
@pytest.mark.parametrize("fault", FAULTS)
async def test_faults_of_the_issuer_leave_the_gateway_closed(
    issuer: OwnIssuer, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidegate.oidc")
    issuer.fault, said = FAULTS[fault]
    clock = Frozen()
    async with verifying(issuer, clock, timeout_s=0.5 if "byte" in fault else 30) as made:
        await until(lambda: made.store.error)
        assert re.search(said, str(made.store.error)), made.store.error
        assert await raised(verified(made, issuer.token())) == AWAY
        issuer.fault = None
        await until(lambda: clock.advance(60) or made.store.usable)
        assert await raised(verified(made, issuer.token())) == "valid"
    ours = [r.getMessage() for r in caplog.records if r.name == "tidegate.oidc"]
    assert len(ours) == 2, "one line when it is lost, one when it is back"
    assert all(line.isprintable() for line in ours)


@pytest.mark.slow
@pytest.mark.spec("OI-09", "SAFE-78")
async def test_a_fetch_whose_connection_died_without_a_word_is_repeated_on_another(issuer: OwnIssuer) -> None:
    clock = Frozen()
    port = urlsplit(issuer.url).port
    assert port is not None
    with Proxy(port) as proxy:
        proxy.stall()
        url = f"{issuer.url.replace(str(port), str(proxy.port))}/keys"
        async with verifying(issuer, clock, jwks_url=url, timeout_s=0.3) as made:
            await until(lambda: proxy.open)
            proxy.forget()
            proxy.heal()
            await until(lambda: made.store.error)
            assert await raised(verified(made, issuer.token())) == "valid"


@pytest.mark.slow
@pytest.mark.spec("OI-09")
async def test_the_last_keys_are_used_for_a_while(issuer: OwnIssuer, caplog: pytest.LogCaptureFixture) -> None:
    clock = Frozen()
    async with verifying(issuer, clock, keys_max_age_s=3600, refresh_s=600) as made:
        token = issuer.token()
        assert await raised(verified(made, token)) == "valid"
        issuer.stop()
        clock.advance(1200)
        await until(lambda: made.store.error)
        assert await raised(verified(made, token)) == "valid"
        wrong = token[:-8] + "AAAAAAAA"
        assert await raised(verified(made, wrong)) == "the token's signature is wrong"
        assert await raised(verified(made, issuer.token(exp=1))) == "the token has expired"
        assert await raised(verified(made, issuer.token(ec_key("k2")))) == AWAY
        clock.advance(2400)
        assert await raised(verified(made, token)) == AWAY
        assert await raised(verified(made, issuer.token(exp=1))) == "the token has expired"
        issuer.start()
        await until(lambda: clock.advance(60) or made.store.usable)
        assert await raised(verified(made, token)) == "valid"
    assert sum("can't be read" in record.message for record in caplog.records) == 1


@pytest.mark.slow
@pytest.mark.spec("OI-09")
async def test_a_reload_with_the_issuer_away_keeps_the_keys(issuer: OwnIssuer) -> None:
    clock = Frozen()
    async with verifying(issuer, clock) as old:
        assert await raised(verified(old, issuer.token())) == "valid"
        issuer.stop()
        async with verifying(issuer, clock, audience=["another"], keys_max_age_s=700) as new:
            assert await raised(verified(new, issuer.token(aud="another"))) == "valid"
            clock.advance(700)
            assert await raised(verified(new, issuer.token(aud="another"))) == AWAY
            assert await raised(verified(old, issuer.token())) == "valid"
        async with verifying(issuer, clock, algorithms=["ES256"]) as other:
            assert await raised(verified(other, issuer.token())) == AWAY
    async with verifying(issuer, clock) as later:
        assert await raised(verified(later, issuer.token())) == AWAY


@pytest.mark.slow
@pytest.mark.spec("OI-07")
async def test_a_new_key_is_fetched_when_a_token_names_it(issuer: OwnIssuer) -> None:
    async with verifying(issuer, Frozen()) as made:
        old = issuer.token()
        assert await raised(verified(made, old)) == "valid"
        new = ec_key("k2")
        issuer.keys.append(new)
        before = len(issuer.asked)
        found: list[str] = []

        async def send(number: int) -> None:
            found.append(await raised(verified(made, issuer.token(new, sub=f"s{number}"))))

        async with anyio.create_task_group() as senders:
            for number in range(50):
                senders.start_soon(send, number)
        assert found == ["valid"] * 50
        assert issuer.asked[before:].count("/keys") <= 2, "the requests share one reading"
        assert await raised(verified(made, old)) == "valid"


@pytest.mark.slow
@pytest.mark.spec("OI-07")
async def test_strangers_cannot_make_the_gateway_flood_the_issuer(issuer: OwnIssuer) -> None:
    clock, stranger = Frozen(), ec_key("s")
    async with verifying(issuer, clock) as made:
        assert await raised(verified(made, issuer.token())) == "valid"
        asked = issuer.asked.count("/keys")
        answers = [
            await raised(verified(made, signed(issuer.claims(), stranger, "ES256", {"kid": f"{number}"})))
            for number in range(100)
        ]
        assert issuer.asked.count("/keys") <= asked + EXTRA_READS
        assert set(answers) == {UNKNOWN, AWAY}
        assert await raised(verified(made, issuer.token())) == "valid", "known keys need no fetching"
        # a key that the issuer surely does not have needs none either, for a while
        asked = issuer.asked.count("/keys")
        first = signed(issuer.claims(), stranger, "ES256", {"kid": "0"})
        assert await raised(verified(made, first)) == UNKNOWN
        assert issuer.asked.count("/keys") == asked
        clock.advance(EXTRA_READ_S)
        issuer.keys.append(stranger)
        assert await raised(verified(made, issuer.token(stranger))) == "valid"


@pytest.mark.slow
@pytest.mark.spec("OI-07")
async def test_a_slow_issuer_holds_up_only_tokens_with_unknown_keys(issuer: OwnIssuer) -> None:
    release = threading.Event()
    async with verifying(issuer, Frozen()) as made:
        assert await raised(verified(made, issuer.token())) == "valid"
        issuer.fault = slowly(release)
        new = ec_key("k2")
        issuer.keys.append(new)
        found: list[str] = []

        async def send() -> None:
            found.append(await raised(verified(made, issuer.token(new))))

        async with anyio.create_task_group() as senders:
            for _ in range(300):
                senders.start_soon(send)
            await until(lambda: found)
            assert set(found) == {AWAY}, "only so many may wait"
            assert isinstance(made.verify(issuer.token().encode()), Verified)
            release.set()
        assert found.count("valid") == 256


@pytest.mark.spec("OI-09")
async def test_a_request_does_not_wait_for_ever(issuer: OwnIssuer) -> None:
    release = threading.Event()
    issuer.fault = slowly(release)
    async with verifying(issuer, Frozen(), timeout_s=0.2) as made:
        assert await raised(verified(made, issuer.token())) == AWAY
        release.set()


class Hanging:
    """A place for keys that does not answer."""

    place = "nowhere"
    followed = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def read(self) -> bytes:
        await anyio.sleep_forever()
        raise AssertionError

    def changed(self) -> bool:
        return False


@pytest.mark.spec("OI-09")
async def test_a_request_waits_for_a_place_that_hangs_no_longer_than_configured() -> None:
    made = KeyStore(Hanging(), Algorithms(["ES256"]), FakeClock(), "a test", refresh_s=60, max_age_s=60, timeout_s=0.05)
    async with anyio.create_task_group() as tasks:
        await made.start(tasks)
        with anyio.fail_after(60), pytest.raises(Overloaded):
            await made.look_for("k1", lambda: False)
        await made.stop()


@pytest.mark.spec("OI-07")
async def test_a_key_that_is_withdrawn_is_no_longer_used(issuer: OwnIssuer, caplog: pytest.LogCaptureFixture) -> None:
    clock = Frozen()
    async with verifying(issuer, clock, refresh_s=600) as made:
        token = issuer.token()
        assert await raised(verified(made, token)) == "valid"
        issuer.keys = []
        clock.advance(600)
        await until(lambda: not len(made.store.keys))
        assert await raised(verified(made, token)) == UNKNOWN
    assert "has no key that may be used" in caplog.text


async def test_metadata_of_an_issuer_that_is_away(issuer: OwnIssuer) -> None:
    issuer.stop()
    async with verifying(issuer) as made:
        with pytest.raises(IssuerFault, match="does not answer"):
            await made.metadata()
