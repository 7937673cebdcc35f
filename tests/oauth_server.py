"""An OAuth 2 authorization server with the client credentials grant: authlib's, on werkzeug. It runs in a process of
its own, because the libraries warn, and knows one client, `tidegate` with the secret `grand-secret`.

    python -W ignore tests/oauth_server.py LIFETIME

It prints its port. A token is `END.NONCE.SIGNATURE`: `is_valid` tells whether it was issued and has not ended.
"""

from __future__ import annotations

import hmac
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECRET = "grand-secret"
_KEY = b"the server's own"


def _signature(text: str) -> str:
    return hmac.digest(_KEY, text.encode(), "sha256").hex()


def is_valid(authorization: str | None) -> bool:
    """Whether a request with this `Authorization` is let in."""
    kind, _, token = (authorization or "").partition(" ")
    text, _, signature = token.rpartition(".")
    return (
        kind == "Bearer"
        and hmac.compare_digest(signature, _signature(text))
        and float(text.split("-")[0]) > time.time()
    )


@contextmanager
def oauth_server(lifetime_s: int) -> Iterator[str]:
    """The token endpoint of a server whose tokens are valid for this long."""
    command = [sys.executable, "-W", "ignore", __file__, str(lifetime_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/token"
        finally:
            process.kill()


def _serve(lifetime_s: int) -> None:
    import flask
    from authlib.integrations.flask_oauth2 import AuthorizationServer
    from authlib.oauth2.rfc6749 import ClientMixin
    from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
    from werkzeug.serving import make_server

    class Client(ClientMixin):  # type: ignore[misc]
        def get_client_id(self) -> str:
            return "tidegate"

        def get_allowed_scope(self, scope: str) -> str:
            return scope

        def check_client_secret(self, client_secret: str) -> bool:
            return hmac.compare_digest(client_secret, SECRET)

        def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
            return True

        def check_grant_type(self, grant_type: str) -> bool:
            return grant_type == "client_credentials"

    class Grant(ClientCredentialsGrant):  # type: ignore[misc]
        TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")

    def generate(grant_type: str, client: Any, **options: Any) -> dict[str, Any]:
        text = f"{time.time() + lifetime_s}-{secrets.token_hex(8)}"
        token = f"{text}.{_signature(text)}"
        return {"token_type": "Bearer", "access_token": token, "expires_in": lifetime_s, "scope": options.get("scope")}

    app = flask.Flask(__name__)
    server = AuthorizationServer(
        app, query_client=lambda id: Client() if id == "tidegate" else None, save_token=lambda token, request: None
    )
    server.register_grant(Grant)
    server.register_token_generator("default", generate)
    app.add_url_rule("/token", view_func=server.create_token_response, methods=["POST"])
    listening = make_server("127.0.0.1", 0, app, threaded=True)
    print(listening.port, flush=True)
    listening.serve_forever()


if __name__ == "__main__":
    import os

    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    _serve(int(sys.argv[1]))
