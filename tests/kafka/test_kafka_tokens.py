"""Tokens for OAUTHBEARER: from a file and from a token endpoint on this machine."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from anyio import to_thread
from gateway_kafka.client import KafkaFault
from gateway_kafka.client_config import OAuthConfig
from gateway_kafka.oauth import Tokens

pytestmark = pytest.mark.anyio


class Endpoint(HTTPServer):
    """Answers with `status` and `body`, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.body: object = {"access_token": "t0k", "token_type": "Bearer", "expires_in": 60}
        self.asked: list[tuple[str, dict[str, list[str]]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.asked.append((self.headers["authorization"], parse_qs(body)))
        answer = json.dumps(self.server.body).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Tests say enough."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def tokens(url: str, **options: str) -> Tokens:
    return Tokens(OAuthConfig(token_url=url, client_id="ada", client_secret="s3cret", **options), 5)


async def test_the_endpoint_is_asked_with_the_clients_credentials_and_only_once(endpoint: Endpoint) -> None:
    ours = tokens(endpoint.url, scope="kafka")
    before = time.time()
    token = await ours.token()
    assert token.value == "t0k"
    assert before + 60 <= token.ends <= time.time() + 60
    assert await ours.token() == token
    assert ours.token_now() == token
    who = "Basic " + base64.b64encode(b"ada:s3cret").decode()  # RFC 6749 section 2.3.1
    assert endpoint.asked == [(who, {"grant_type": ["client_credentials"], "scope": ["kafka"]})]


@pytest.mark.slow
async def test_a_token_that_is_about_to_end_is_replaced(endpoint: Endpoint) -> None:
    endpoint.body = {"access_token": "short", "expires_in": 0}
    ours = tokens(endpoint.url)
    await ours.token()
    endpoint.body = {"access_token": "next"}
    assert ours.token_now().value == "next"
    assert len(endpoint.asked) == 2


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 503])
async def test_a_response_that_is_too_large_is_refused(endpoint: Endpoint, status: int) -> None:
    endpoint.status, endpoint.body = status, {"access_token": "t" * (2 << 20)}
    with pytest.raises(KafkaFault, match="is larger than 1048576 bytes") as e:
        await tokens(endpoint.url).token()
    with pytest.raises(KafkaFault, match="is larger than 1048576 bytes") as now:
        tokens(endpoint.url).token_now()
    assert all(fault.retry and not fault.credentials for fault in (e.value, now.value))


@pytest.mark.slow
@pytest.mark.parametrize(("status", "credentials"), [(401, True), (400, True), (503, False)])
async def test_a_refusal_says_what_the_endpoint_said(endpoint: Endpoint, status: int, credentials: bool) -> None:
    endpoint.status, endpoint.body = status, {"error": "invalid_client"}
    ours = tokens(endpoint.url)
    with pytest.raises(KafkaFault, match=f"{status}.*invalid_client") as raised:
        await ours.token()
    assert raised.value.credentials == credentials
    with pytest.raises(KafkaFault, match=f"{status}.*invalid_client") as raised:
        ours.token_now()
    assert raised.value.credentials == credentials


async def test_an_answer_without_token_is_a_fault(endpoint: Endpoint) -> None:
    endpoint.body = {"token": "x"}
    with pytest.raises(KafkaFault, match="no token"):
        await tokens(endpoint.url).token()


@pytest.mark.parametrize("said", [-60, "60", "1e400", 10**30, "soon", "NaN", True, [1]])
async def test_any_lifetime_is_limited_or_a_fault(endpoint: Endpoint, said: object) -> None:
    endpoint.body = {"access_token": "t0k", "expires_in": said}
    before = time.time()
    if said in ("soon", "NaN") or said is True or isinstance(said, list):
        with pytest.raises(KafkaFault, match="no token") as e:
            await tokens(endpoint.url).token()
        assert "soon" not in str(e.value)
    else:
        token = await tokens(endpoint.url).token()
        assert before <= token.ends <= time.time() + 7 * 86400


async def test_a_refusal_that_repeats_the_secret_does_not_show_it(endpoint: Endpoint) -> None:
    endpoint.status, endpoint.body = 400, {"error": "no s3cret\x1b[2J\r\n", "more": "x" * 185 + "s3cret"}
    with pytest.raises(KafkaFault, match="answered 400") as e:
        await tokens(endpoint.url).token()
    assert "s3c" not in str(e.value)
    assert str(e.value).isprintable()


@pytest.mark.slow
@pytest.mark.parametrize("threaded", [False, True])
async def test_an_endpoint_that_drips_is_given_up(threaded: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                for _ in range(600):
                    connection.sendall(b" ")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        ours = Tokens(OAuthConfig(token_url=url, client_id="ada", client_secret="s3cret"), 0.5)
        with pytest.raises(KafkaFault, match="does not answer: TimeoutError"):
            await (to_thread.run_sync(ours.token_now) if threaded else ours.token())
        thread.join()


async def test_a_pipe_as_a_token_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    with pytest.raises(KafkaFault, match="not a regular file"):
        await Tokens(OAuthConfig(token_file=tmp_path / "token"), 5).token()


async def test_an_endpoint_that_is_away_is_a_fault() -> None:
    with pytest.raises(KafkaFault, match="does not answer") as raised:
        await tokens("http://127.0.0.1:1/token").token()
    assert not raised.value.credentials


async def test_a_file_is_read_again_and_its_end_is_in_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4_000_000_000}).encode()).decode().rstrip("=")
    file.write_text(f"e30.{claims}.sig\n")
    ours = Tokens(OAuthConfig(token_file=file), 5)
    assert await ours.token() == (f"e30.{claims}.sig", 4_000_000_000.0)
    file.write_text("opaque")
    token = ours.token_now()
    assert token.value == "opaque"
    assert token.ends > time.time()


@pytest.mark.parametrize("text", ["", None])
async def test_a_file_without_token_is_a_fault_that_names_it(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
    with pytest.raises(KafkaFault, match="token file"):
        await Tokens(OAuthConfig(token_file=file), 5).token()
