"""An issuer of tokens whose faults a test chooses. It listens on loopback and runs in a thread."""

from __future__ import annotations

import base64
import hmac
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from joserfc import jws, jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

ALGORITHMS = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "Ed448"),
    *("HS256", "none"),
]
AUDIENCE = "gateway"


def rsa_key(kid: str) -> RSAKey:
    return whole(RSAKey.generate_key(2048, {"kid": kid}))


def ec_key(kid: str, curve: Any = "P-256") -> ECKey:
    return whole(ECKey.generate_key(curve, {"kid": kid}))


def okp_key(kid: str, curve: Any = "Ed25519") -> OKPKey:
    return whole(OKPKey.generate_key(curve, {"kid": kid}))


K = TypeVar("K", bound=Key)


def whole(key: K) -> K:
    """The key, with all that the library computes at the first use: later uses may be in several threads."""
    key.as_dict(private=True)
    return key


def signed(claims: Mapping[str, Any], key: Key, algorithm: str, header: Mapping[str, Any] | None = None) -> str:
    """A token with these claims; a header parameter None is left out."""
    full = {"alg": algorithm, "kid": key.kid, **(header or {})}
    registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    return jwt.encode({k: v for k, v in full.items() if v is not None}, dict(claims), key, registry=registry)


def encoded(value: Any) -> str:
    """A part of a token: JSON, or bytes as they are."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def forged(claims: Mapping[str, Any], secret: bytes, kid: str | None) -> str:
    """A token with an HMAC whose key is something that everyone may know, such as a public key."""
    text = f"{encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': kid})}.{encoded(dict(claims))}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


class OwnIssuer:
    """Publishes `keys`, and issues tokens. `fault` answers a path in its own way: it gets the request, and returns True
    if it has answered. `asked` are the paths of all requests."""

    def __init__(self, *keys: Key) -> None:
        self.keys: list[Key] = list(keys) or [ec_key("k1")]
        self.fault: Callable[[BaseHTTPRequestHandler], bool] | None = None
        self.issuer: str | None = None
        self.asked: list[str] = []
        self.tls: ssl.SSLContext | None = None
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listens, at the same port as before."""
        self._server = _Server(("127.0.0.1", self.port), self._handler())
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Is down until `start`."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def key_set(self) -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a valid token; a change to None leaves one out."""
        now = int(time.time())
        valid = {"iss": self.url, "aud": AUDIENCE, "sub": "orders", "iat": now, "exp": now + 3600}
        return {k: v for k, v in {**valid, **changes}.items() if v is not None}

    def token(self, key: Key | None = None, algorithm: str = "", **changes: Any) -> str:
        """A valid token but for the changes of its claims."""
        key = key or self.keys[0]
        return signed(self.claims(**changes), key, algorithm or ("ES256" if isinstance(key, ECKey) else "RS256"))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        own = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                own.asked.append(self.path)
                self.close_connection = True  # so that nothing is left when the issuer stops
                with suppress(OSError):  # the gateway waits no longer
                    if own.fault is not None and own.fault(self):
                        return
                    if self.path == "/.well-known/openid-configuration":
                        answer(self, json.dumps({"issuer": own.issuer or own.url, "jwks_uri": f"{own.url}/keys"}))
                    elif self.path == "/keys":
                        answer(self, json.dumps(own.key_set()))
                    else:
                        answer(self, "{}", 404)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 100

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that left


def answer(request: BaseHTTPRequestHandler, text: str | bytes, status: int = 200, **headers: str) -> bool:
    """Answers with JSON. Returns True, for a `fault`."""
    body = text.encode() if isinstance(text, str) else text
    request.send_response(status)
    for name, value in {"content-type": "application/json", **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("content-length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
    return True
