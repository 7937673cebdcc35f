"""A real OpenID provider (oidc-provider-mock), in a process of its own: it warns when it is imported."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests import web

CLIENT = "gateway"


@contextmanager
def provider(folder: Path) -> Iterator[str]:
    """Runs the provider. Returns its issuer URL."""
    log = folder / "provider.log"
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        end = time.monotonic() + 60
        while (found := re.search(r"running on (http://[\d.]+:\d+)", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        yield found[1]
    finally:
        process.kill()
        process.wait()


def login(issuer: str, subject: str) -> str:
    """Logs a user in with the authorization code flow. Returns the ID token."""
    callback = "http://localhost/callback"
    query = {"client_id": CLIENT, "redirect_uri": callback, "response_type": "code", "scope": "openid email"}
    with web.client(base_url=issuer, timeout=60, verify=False) as client:
        to = client.post("/oauth2/authorize", params=query, data={"sub": subject}).headers["location"]
        (code,) = parse_qs(urlsplit(to).query)["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": callback}
        answer = client.post("/oauth2/token", data=form, auth=(CLIENT, "any"))
    token: str = answer.json()["id_token"]
    return token
