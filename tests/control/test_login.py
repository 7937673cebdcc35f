"""`tidegate login`: the device flow against a small issuer, and the token that it gets at a real gateway."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from gateway_testing import GatewayProcess
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests import command_line, web

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
operators:
  people:
    authenticate: [{oidc: {issuer: ISSUER, audience: cli, subject: email}}]
    roles:
      - {role: viewer, from: ["anna@*"]}
      - {role: operator, claims: {groups: on-call}}
"""


class Issuer:
    """An OpenID provider with the device flow (RFC 8628). `answers` are what the token endpoint says, in order."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "k", "use": "sig", "alg": "RS256"})
        self.answers: list[dict[str, Any]] = []
        self.forms: list[dict[str, str]] = []
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/jwks":
                    self.answer(200, {"keys": [issuer.key.as_dict(private=False)]})
                else:
                    ends = {"device_authorization_endpoint": "device", "token_endpoint": "token", "jwks_uri": "jwks"}
                    self.answer(200, {"issuer": issuer.url, **{k: f"{issuer.url}/{v}" for k, v in ends.items()}})

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                issuer.forms.append({name: values[0] for name, values in form.items()})
                if self.path == "/device":
                    code = {"device_code": "d", "user_code": "WDJB\x1bMJHT", "verification_uri": f"{issuer.url}/go"}
                    self.answer(200, {**code, "interval": 0, "expires_in": 60})
                else:
                    answer = issuer.answers.pop(0)
                    self.answer(400 if "error" in answer else 200, answer)

            def answer(self, status: int, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def token(self, **claims: Any) -> str:
        now = int(time.time())
        body = {"iss": self.url, "aud": "cli", "sub": "1", "iat": now, "exp": now + 600} | {
            "email_verified": True,
            **claims,
        }
        return jwt.encode({"alg": "RS256", "kid": "k"}, body, self.key)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    running = Issuer()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def gateway(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(CONFIG.replace("ISSUER", issuer.url), tmp_path_factory.mktemp("gateway")) as running:
        yield running


def tidegate(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return command_line.tidegate(*arguments, env={"XDG_CONFIG_HOME": str(folder), **env}, cwd=folder)


@pytest.mark.spec("AD-10", "AD-11")
def test_a_person_logs_in_by_the_device_flow(gateway: GatewayProcess, issuer: Issuer, tmp_path: Path) -> None:
    where = ("--admin", gateway.admin_url)
    flow = ("login", *where, "--issuer", issuer.url, "--client-id", "cli")
    issuer.answers = [{"error": "authorization_pending"}, {"id_token": issuer.token(email="anna@example.org")}]
    done = tidegate(tmp_path, *flow)
    assert (done.returncode, f"open {issuer.url}/go and enter WDJB\\x1bMJHT" in done.stderr) == (0, True), done.stderr
    assert issuer.forms[0] == {"client_id": "cli", "scope": "openid email"}
    assert issuer.forms[-1]["grant_type"] == "urn:ietf:params:oauth:grant-type:device_code"
    kept = tmp_path / "tidegate/logins.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert tidegate(tmp_path, "status", *where).returncode == 0
    denied = tidegate(tmp_path, "reload", *where)
    assert denied.returncode == 1
    assert "needs the role operator; anna@example.org (oidc) has the role viewer" in denied.stderr
    last = json.loads((gateway.data_dir / "audit/audit.jsonl").read_text().splitlines()[-1])
    assert (last["who"], last["what"], last["result"]) == ("anna@example.org (oidc)", "config.reload", "denied")
    issuer.answers = [{"id_token": issuer.token(email="bert@example.org", groups=["staff", "on-call"])}]
    assert tidegate(tmp_path, *flow).returncode == 0
    assert tidegate(tmp_path, "reload", *where).returncode == 0
    issuer.answers = [{"id_token": issuer.token(email="eve@elsewhere")}]
    assert tidegate(tmp_path, *flow).returncode == 0
    assert "eve@elsewhere (oidc) has no role here" in tidegate(tmp_path, "status", *where).stderr
    assert tidegate(tmp_path, "logout", *where).returncode == 0
    assert "requires a token" in tidegate(tmp_path, "status", *where).stderr
    assert issuer.url not in kept.read_text()


@pytest.mark.spec("AD-11")
def test_a_login_that_fails_says_why(gateway: GatewayProcess, issuer: Issuer, tmp_path: Path) -> None:
    flow = ("login", "--admin", gateway.admin_url, "--client-id", "cli", "--issuer")
    for answer, why in (
        ({"error": "access_denied", "error_description": "no\x1b way"}, "the login failed: no\\x1b way"),
        ({"error": "expired_token"}, "the login failed: expired_token"),
        ({"access_token": "opaque"}, "sent no id_token"),
    ):
        issuer.answers = [answer]
        failed = tidegate(tmp_path, *flow, issuer.url)
        assert (failed.returncode, why in failed.stderr) == (1, True), failed.stderr
    assert "must be at https://" in tidegate(tmp_path, *flow, "http://login.example").stderr
    assert "does not belong to the issuer" in tidegate(tmp_path, *flow, issuer.url + "/other").stderr
    assert not (tmp_path / "tidegate").exists()


@pytest.mark.spec("AD-10")
def test_tokens_of_the_issuer_that_are_not_for_us_are_refused(gateway: GatewayProcess, issuer: Issuer) -> None:

    def status(token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        return web.get(f"{gateway.admin_url}/status", headers=headers, verify=False).status_code

    good = {"email": "anna@example.org"}
    assert status(issuer.token(**good)) == 200
    for wrong in ({"aud": "other"}, {"exp": 1}, {"iss": "http://other"}):
        assert status(issuer.token(**good, **wrong)) == 401, wrong
    head, body, signature = issuer.token(**good).split(".")
    assert status(f"{head}.{body}.{signature[:-4]}AAAA") == 401
