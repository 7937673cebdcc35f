"""Access tokens of the HTTP sink: from a real authorization server, and from endpoints that fail."""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

import anyio
import pytest
import trustme
from gateway_http.credentials import oauth2
from gateway_testing import GatewayProcess, ScriptedSink, Subscriber
from gateway_testing.subscriber import Answer, Received

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from gateway_core.delivery import Subscription
from tests import web
from tests.oauth_server import SECRET, is_valid, oauth_server

pytestmark = pytest.mark.anyio

EVENT = Event({"specversion": "1.0", "id": "1", "type": "t"}, b'{"n":1}')


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth2, "WAITS_S", (0.05, 0.2))


class Endpoint(Subscriber):
    """A token endpoint that gives the tokens `token-1`, `token-2` and so on."""

    def __init__(self, decide: Callable[[Received], Answer | str] | None = None, **members: Any) -> None:
        self._members = members
        super().__init__(decide=decide or self._grant)

    def _grant(self, request: Received) -> Answer:
        return grant(f"token-{len(self.requests)}", **self._members)


def grant(token: str, **members: Any) -> Answer:
    return 200, {}, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 3600, **members}).encode()


def credentials(url: str, **more: Any) -> dict[str, Any]:
    return {"oauth2": {"token_url": url, "client_id": "tidegate", "client_secret": SECRET, **more}}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as found:
        yield found


def sent(subscriber: Subscriber) -> list[str]:
    """The tokens that it got."""
    return [request.headers.get("authorization", "").removeprefix("Bearer ") for request in subscriber.requests]


# -- the request --------------------------------------------------------------------------------------------------


@pytest.mark.spec("OC-02")
async def test_what_is_asked_for(kit: Any, client: str) -> None:
    more = {"scopes": ["a", "b:c"], "audience": "orders", "resource": "https://orders.example/"}
    with Endpoint() as endpoint, Subscriber() as subscriber:
        given = credentials(endpoint.url + "t?x=y", **more, client_id="us er", client_secret="p:ss&ü")
        async with kit.sink(subscriber.url, client=client, credentials=given, probe=True) as sink:
            assert [(await kit.send(sink, EVENT)).code for _ in range(3)] == [202] * 3
        assert sent(subscriber) == ["token-1"] * 4
        (request,) = endpoint.requests
    assert (request.method, request.path) == ("POST", "/t?x=y")
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    # RFC 6749 section 2.3.1: both are encoded like form fields first
    assert base64.b64decode(request.headers["authorization"].removeprefix("Basic ")) == b"us+er:p%3Ass%26%C3%BC"
    form = {"grant_type": "client_credentials", "scope": "a b:c"}
    assert dict(parse_qsl(request.body.decode())) == {
        **form,
        "audience": "orders",
        "resource": "https://orders.example/",
    }


@pytest.mark.spec("OC-02")
async def test_the_client_in_the_body(kit: Any, endpoint: Endpoint) -> None:
    with Subscriber() as subscriber:
        given = credentials(endpoint.url, client_authentication="post", client_secret="p:ss&ü")
        async with kit.sink(subscriber.url, credentials=given) as sink:
            assert (await kit.send(sink)).delivered
    (request,) = endpoint.requests
    assert "authorization" not in request.headers
    asked = {"grant_type": "client_credentials", "client_id": "tidegate", "client_secret": "p:ss&ü"}
    assert dict(parse_qsl(request.body.decode())) == asked


@pytest.mark.spec("OC-02", "OC-03")
@pytest.mark.usefixtures("processes", "real_time")
@pytest.mark.parametrize(("client", "authentication"), [("native", "basic"), ("httpx", "post")])
async def test_a_real_server_under_load(kit: Any, client: str, authentication: str) -> None:
    """Tokens are valid for two seconds, and the subscriber refuses those that have ended."""
    ids: list[str] = []

    def guard(request: Received) -> Answer:
        if not is_valid(request.headers.get("authorization")):
            return 401
        ids.append(request.headers["ce-id"])
        return 202

    wanted: list[str] = []

    async def deliver(sink: Any, number: str) -> None:
        wanted.append(number)
        event = Event({"specversion": "1.0", "id": number, "type": "t"}, b"{}")
        while not (outcome := await kit.send(sink, event)).delivered:
            assert outcome.retry, outcome

    with oauth_server(2) as url, Subscriber(decide=guard) as subscriber:
        given = credentials(url, client_authentication=authentication)
        async with (
            kit.sink(subscriber.url, client=client, credentials=given) as sink,
            anyio.create_task_group() as tasks,
        ):
            tokens: set[str] = set()
            while len(tokens) < 3:
                tasks.start_soon(deliver, sink, str(len(wanted)))
                await anyio.sleep(0.02)
                tokens = set(sent(subscriber))
    assert sorted(ids) == sorted(wanted)


# -- one request --------------------------------------------------------------------------------------------------


@pytest.mark.spec("OC-03")
async def test_sinks_and_events_share_one_request(kit: Any, client: str) -> None:
    answer = threading.Event()

    def slow(request: Received) -> Answer:
        answer.wait(30)
        return grant("the-token")

    with Endpoint(slow) as endpoint, Subscriber() as subscriber:
        async with AsyncExitStack() as stack:
            given = credentials(endpoint.url)
            sinks = [
                await stack.enter_async_context(kit.sink(subscriber.url, client=client, credentials=given))
                for _ in range(3)
            ]
            outcomes: list[Outcome] = []
            async with anyio.create_task_group() as tasks:

                async def send(sink: Any) -> None:
                    outcomes.append(await kit.send(sink))

                for n in range(30):
                    tasks.start_soon(send, sinks[n % 3])
                await kit.until(lambda: endpoint.requests)
                answer.set()
            assert [o.delivered for o in outcomes] == [True] * 30
        assert len(endpoint.requests) == 1
        assert set(sent(subscriber)) == {"the-token"}


@pytest.mark.spec("OC-03")
async def test_the_token_outlives_the_sink_that_asked_for_it(kit: Any, endpoint: Endpoint) -> None:
    with Subscriber() as subscriber:
        async with anyio.create_task_group() as tasks:

            async def started(**more: Any) -> Any:
                options = {"url": subscriber.url, "credentials": credentials(endpoint.url, **more)}
                sink = kit.build("sink", options)
                await sink.start(tasks)
                return sink

            first, second = await started(), await started()
            assert (await kit.send(first)).delivered
            await first.stop()
            third = await started(scopes=["another"])
            assert [(await kit.send(sink)).delivered for sink in (second, third)] == [True, True]
            await second.stop()
            last = await started()
            assert (await kit.send(last)).delivered
            await third.stop()
            await last.stop()
    assert sent(subscriber) == ["token-1", "token-1", "token-2", "token-3"]


@pytest.mark.slow
@pytest.mark.spec("OC-03")
async def test_tokens_are_renewed_after_the_tasks_of_the_first_sink_ended(kit: Any) -> None:
    """As those of a WebSocket client do when it loses its connection. The endpoint keeps no connection open."""

    names = iter(["token-1", "token-2"])

    def fresh(request: Received) -> Answer:
        code, headers, body = cast("tuple[int, dict[str, str], bytes]", grant(next(names)))
        return code, {**headers, "connection": "close"}, body

    def wants_another(request: Received) -> Answer:
        return 401 if request.headers["authorization"] == "Bearer token-1" else 202

    with Endpoint(fresh) as tokens, Subscriber(decide=wants_another) as subscriber:
        options = {"url": subscriber.url, "credentials": credentials(tokens.url)}
        first, second = kit.build("sink", options), kit.build("sink", options)
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as its_own:
                await first.start(its_own)
                await second.start(tasks)
                its_own.cancel_scope.cancel()
            await first.stop()
            try:
                assert (await kit.send(second)).code == 401
                assert (await retried(kit, second)).delivered
            finally:
                await second.stop()
    assert sent(subscriber) == ["token-1", "token-2"]


@pytest.mark.spec("OC-03")
@pytest.mark.usefixtures("real_time")
async def test_a_token_is_renewed_if_it_was_used(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth2, "RENEWED_AT", 0.6)
    with Endpoint(expires_in="1") as endpoint, Subscriber() as subscriber:
        async with kit.sink(subscriber.url, credentials=credentials(endpoint.url)) as sink:
            assert (await kit.send(sink)).delivered
            await kit.until(lambda: len(endpoint.requests) == 2)
            await anyio.sleep(1.2)  # nobody needs the second one: it lapses
            assert len(endpoint.requests) == 2
            assert (await kit.send(sink)).delivered
    assert sent(subscriber) == ["token-1", "token-3"]


# -- a token that is refused --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("OC-04")
async def test_a_refused_token_is_dropped_once(kit: Any, client: str, endpoint: Endpoint) -> None:
    def revoked(request: Received) -> Answer:
        return 202 if request.headers["authorization"] != "Bearer token-1" else 401

    with Subscriber(decide=revoked) as subscriber:
        async with kit.sink(subscriber.url, client=client, credentials=credentials(endpoint.url)) as sink:
            async with anyio.create_task_group() as tasks:
                firsts: list[Outcome] = []

                async def send() -> None:
                    firsts.append(await kit.send(sink))

                for _ in range(10):
                    tasks.start_soon(send)
            assert {(o.code, o.retry, o.local) for o in firsts if not o.delivered} == {(401, True, False)}
            assert (await retried(kit, sink)).delivered
        assert len(endpoint.requests) == 2


@pytest.mark.slow
@pytest.mark.spec("OC-04", "OC-05")
async def test_a_subscriber_that_refuses_every_token(kit: Any, client: str, endpoint: Endpoint) -> None:
    with Subscriber(default=401) as subscriber:
        async with kit.sink(subscriber.url, client=client, credentials=credentials(endpoint.url)) as sink:
            assert (await kit.send(sink)).retry
            for _ in range(20):
                outcome = await retried(kit, sink)
                assert (outcome.code, outcome.retry) == (401, False), "as without credentials"
        assert len(endpoint.requests) == 2


async def retried(kit: Any, sink: Any) -> Outcome:
    """The outcome of the next attempt that was made."""
    with anyio.fail_after(30):
        while (outcome := await kit.send(sink)).local:  # noqa: ASYNC110
            await anyio.sleep(0.05)
    result: Outcome = outcome
    return result


# -- no token -----------------------------------------------------------------------------------------------------

ECHO = json.dumps({"error": "invalid_client", "error_description": f"not {SECRET}"}).encode()
UNUSABLE: dict[str, tuple[Answer, str]] = {
    "refused": ((401, {}, ECHO), "401 Unauthorized (invalid_client)"),
    "secret as error": ((400, {}, json.dumps({"error": SECRET}).encode()), "400 Bad Request"),
    "error that is none": ((400, {}, b'{"error": "a\\nb"}'), "400 Bad Request"),
    "away": (503, "503 Service Unavailable"),
    "no answer": (None, "connection closed before the response was complete"),
    "redirect": ((307, {"location": "http://127.0.0.1:9/"}, b""), "307 Temporary Redirect"),
    "empty": (200, "not that of a token endpoint"),
    "page": ((200, {}, b"<html>sign in</html>"), "not that of a token endpoint"),
    "list": ((200, {}, b"[]"), "not that of a token endpoint"),
    "deep": ((200, {}, b"[" * 60_000), "not that of a token endpoint"),
    "not UTF-8": ((200, {}, b'{"access_token": "\xff"}'), "not that of a token endpoint"),
    "no token": ((200, {}, b'{"token_type": "Bearer"}'), "not that of a token endpoint"),
    "empty token": (grant(""), "1 to 16384 bytes"),
    "injection": (grant("a\r\nx: y"), "a character that HTTP does not allow"),
    "blank": (grant("a b"), "a character that HTTP does not allow"),
    "not ASCII": (grant("tökén"), "a character that HTTP does not allow"),
    "long token": (grant("a" * 20_000), "1 to 16384 bytes"),
    "other type": (grant("a", token_type="DPoP"), "another type"),
    "secret as lifetime": (grant("a", expires_in=f"token\n{SECRET}"), "unusable: `expires_in` is not a number"),
    "odd lifetime": (grant("a", expires_in="soon"), "`expires_in` is not a number"),
    "no lifetime": (grant("a", expires_in="NaN"), "`expires_in` is not a number"),
    "huge": ((200, {}, b'{"access_token": "' + b"a" * 6_000_000 + b'"}'), "more than 65536 bytes"),
}


@pytest.mark.spec("OC-05", "OC-07")
@pytest.mark.parametrize("name", UNUSABLE)
async def test_what_is_no_token(kit: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    answer, reason = UNUSABLE[name]
    with Endpoint(lambda request: answer) as endpoint, Subscriber() as subscriber:
        async with kit.sink(subscriber.url, credentials=credentials(endpoint.url)) as sink:
            outcomes = [await kit.send(sink) for _ in range(5)]
    assert {(o.delivered, o.retry, o.local, o.code) for o in outcomes} == {(False, True, True, None)}
    assert all(reason in o.reason and SECRET not in o.reason and "\n" not in o.reason for o in outcomes)
    assert subscriber.requests == []
    lines = [r.getMessage() for r in caplog.records if r.name == "tidegate.credentials"]
    assert len(lines) == 1, "one line, however often it fails"
    assert reason in lines[0]
    assert SECRET not in caplog.text


@pytest.mark.spec("OC-05")
async def test_the_endpoint_comes_back(kit: Any, client: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidegate.credentials")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    with Subscriber() as subscriber:
        given = credentials(f"http://127.0.0.1:{port}/token")
        async with kit.sink(subscriber.url, client=client, credentials=given) as sink:
            outcome = await kit.send(sink)
            assert (outcome.local, outcome.reason) == (
                *(True,),
                f"no access token: http://127.0.0.1:{port}/token: connection refused",
            )
            with Subscriber(decide=lambda request: grant("late"), port=port):
                assert (await retried(kit, sink)).delivered
        assert sent(subscriber) == ["late"]
    lines = [r.getMessage() for r in caplog.records]
    assert lines[-1] == f"here: http://127.0.0.1:{port}/token gives access tokens again"


@pytest.mark.spec("OC-05")
async def test_there_is_no_storm(kit: Any, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth2, "WAITS_S", (60.0, 60.0))
    with Endpoint(lambda request: 500) as endpoint, Subscriber() as subscriber:
        async with kit.sink(subscriber.url, client=client, credentials=credentials(endpoint.url)) as sink:
            for _ in range(200):
                assert (await kit.send(sink)).local
        assert (len(endpoint.requests), len(subscriber.requests)) == (1, 0)


@pytest.mark.slow
@pytest.mark.spec("OC-05")
async def test_the_endpoint_says_how_long_to_wait(kit: Any) -> None:
    with Endpoint(lambda request: (429, {"retry-after": "60"}, b"")) as endpoint, Subscriber() as subscriber:
        async with kit.sink(subscriber.url, credentials=credentials(endpoint.url)) as sink:
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                assert (await kit.send(sink)).local
                await anyio.sleep(0.01)
        assert len(endpoint.requests) == 1


@pytest.mark.spec("OC-05")
@pytest.mark.parametrize("stops", [False, True])
async def test_an_endpoint_that_is_silent(kit: Any, client: str, stops: bool) -> None:
    """Attempts end in time; a sink that stops ends them too."""
    answer = threading.Event()

    def silent(request: Received) -> Answer:
        answer.wait(30)
        return None

    outcomes: list[Outcome] = []
    with Endpoint(silent) as endpoint, Subscriber() as subscriber:
        try:
            async with kit.sink(subscriber.url, client=client, credentials=credentials(endpoint.url)) as sink:
                for _ in range(3):
                    sink.send(EVENT, 30.0 if stops else 0.1, outcomes.append)
                await kit.until(lambda: endpoint.requests if stops else len(outcomes) == 3)
            assert [(o.retry, o.local) for o in outcomes] == [(True, not stops)] * 3
        finally:
            answer.set()
        assert subscriber.requests == []


@pytest.mark.spec("OC-05")
@pytest.mark.usefixtures("real_time")
async def test_a_token_is_sent_until_it_ends_while_the_endpoint_is_away(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth2, "RENEWED_AT", 0.6)  # a second after the grant, when another request may be made
    asked = 0

    def once(request: Received) -> Answer:
        nonlocal asked
        asked += 1
        return grant("only", expires_in=2) if asked == 1 else 500

    with Endpoint(once) as endpoint, Subscriber() as subscriber:
        async with kit.sink(subscriber.url, credentials=credentials(endpoint.url)) as sink:
            assert (await kit.send(sink)).delivered
            while (outcome := await kit.send(sink)).delivered:  # noqa: ASYNC110
                await anyio.sleep(0.05)
            assert outcome.local
            with anyio.fail_after(30):
                while len(endpoint.requests) == 1:  # an event asks again, if the renewal was late
                    assert (await kit.send(sink)).local
                    await anyio.sleep(0.05)
        assert set(sent(subscriber)) == {"only"}


@pytest.mark.slow
@pytest.mark.spec("OC-05")
async def test_events_wait_and_none_is_given_up(kit: Any, client: str) -> None:
    """Even those that are tried once only: nothing was sent."""
    answers: list[Answer] = [500, None, (400, {}, b'{"error": "invalid_client"}'), (200, {}, b"{}")]

    def late(request: Received) -> Answer:
        return answers.pop(0) if answers else grant("late")

    dead_letter = ScriptedSink()
    with Endpoint(late) as endpoint, Subscriber() as subscriber:
        async with kit.sink(subscriber.url, client=client, credentials=credentials(endpoint.url)) as sink:
            subscription = Subscription("t", sink, DeliveryConfig(retry=0), SystemClock(), dead_letter=dead_letter)
            for number in range(40):
                assert subscription.offer(Event({"specversion": "1.0", "id": str(number), "type": "t"}, b"{}"))
            await kit.until(lambda: subscription.delivered == 40)
            subscription.stop()
    assert dead_letter.sent == []
    assert subscription.attempts == 40
    assert subscription.failures.in_a_row == 0
    assert sorted(int(request.headers["ce-id"]) for request in subscriber.requests) == list(range(40))
    assert len(endpoint.requests) == 5


@pytest.mark.spec("OC-05")
@pytest.mark.usefixtures("processes")
def test_a_stop_does_not_wait_for_the_endpoint(tmp_path: Path) -> None:
    answer = threading.Event()

    def silent(request: Received) -> Answer:
        answer.wait(120)
        return grant("late")

    with Endpoint(silent) as endpoint, Subscriber() as subscriber:
        given = json.dumps(credentials(endpoint.url, timeout_s=120.0))
        config = (
            "brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}\n"
            f"triggers: {{t: {{delivery: {{timeout_s: 120}}, "
            f"subscriber: {{http: {{url: '{subscriber.url}', credentials: {given}}}}}}}}}\n"
        )
        try:
            with GatewayProcess(config, tmp_path, {"TIDEGATE_DRAIN_TIMEOUT_S": "120"}) as gateway:
                event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
                assert web.post(gateway.ingress(), headers=event, verify=False).status_code == 202
                gateway.wait_until(lambda: gateway.trigger("t")["in_flight"] == 1)
                gateway.stop(timeout_s=60)
                assert not answer.is_set()
                answer.set()
                gateway.start()
                gateway.wait_until(lambda: len(subscriber.requests) == 1)
        finally:
            answer.set()
    assert sent(subscriber) == ["late"]


@pytest.mark.slow
@pytest.mark.spec("OC-02")
async def test_the_endpoint_has_tls_of_its_own(kit: Any, tmp_path: Path) -> None:
    ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(tls)
    endpoint = Endpoint()
    endpoint._server.socket = tls.wrap_socket(endpoint._server.socket, server_side=True)
    url = endpoint.url.replace("http:", "https:")
    with endpoint, Subscriber() as subscriber:
        async with kit.sink(subscriber.url, credentials=credentials(url)) as sink:
            outcome = await kit.send(sink)
            assert outcome.local
            assert "unable to get local issuer certificate" in outcome.reason
        trusting = credentials(url, tls={"ca_file": tmp_path / "ca.pem"})
        async with kit.sink(subscriber.url, credentials=trusting) as sink:
            assert (await kit.send(sink)).delivered
        assert len(endpoint.requests) == 1
    with pytest.raises(StartError, match=r"^here\.credentials\.oauth2\.tls: the certificate files can't be used"):
        kit.build("sink", {"url": "https://h/", "credentials": credentials(url, tls={"ca_file": tmp_path / "no.pem"})})


@pytest.mark.spec("OC-02")
async def test_a_token_together_with_the_webhook_handshake(kit: Any, client: str, endpoint: Endpoint) -> None:
    def answer(request: Received) -> Answer:
        return (200, {"webhook-allowed-origin": "*"}, b"") if request.method == "OPTIONS" else 202

    with Subscriber(decide=answer) as subscriber:
        given = {"client": client, "credentials": credentials(endpoint.url), "webhook": {"origin": "us.example"}}
        async with kit.sink(subscriber.url, **given) as sink:
            assert (await kit.send(sink)).delivered
    assert [(r.method, "authorization" in r.headers) for r in subscriber.requests] == [
        ("OPTIONS", False),
        ("POST", True),
    ]
