"""The request for an access token, and what its response says (RFC 6749 sections 2.3.1, 4.4 and 5)."""

from __future__ import annotations

import base64
import math
import re
from http import HTTPStatus
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from gateway_transport.http_retries import retry_after_s

from gateway_core.contract.outcome import Outcome

from ..outcome import Headers
from .config import OAuth2Config
from .tokens import Token

MOST_BYTES = 64 * 1024
"""The longest response that is read as one."""
UNSAID_S = 300.0
"""How long a token counts as valid, in seconds, if the server does not say it."""
SHORTEST_S, LONGEST_S = 1.0, 7 * 24 * 3600.0
"""What a token's time is limited to, whatever the server says."""
_ERROR = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Unusable(Exception):
    """The token endpoint gave no token; the text says why, without a secret."""


def request(options: OAuth2Config) -> bytes:
    """The request, as bytes of HTTP/1.1."""
    parts = urlsplit(options.token_url)
    secret = options.client_secret.get_secret_value()
    form = {"grant_type": "client_credentials"}
    if options.scopes:
        form["scope"] = " ".join(options.scopes)
    form |= {n: v for n in ("audience", "resource") if (v := getattr(options, n)) is not None}
    lines = [f"host: {parts.netloc}", "user-agent: tidegate", "accept: application/json"]
    if options.client_authentication == "post":
        form |= {"client_id": options.client_id, "client_secret": secret}
    else:
        pair = f"{quote_plus(options.client_id)}:{quote_plus(secret)}"
        lines.append("authorization: Basic " + base64.b64encode(pair.encode()).decode())
    body = urlencode(form).encode()
    lines += ["content-type: application/x-www-form-urlencoded", f"content-length: {len(body)}", "", ""]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return f"POST {target} HTTP/1.1\r\n".encode() + "\r\n".join(lines).encode() + body


class TokenResponses:
    """Classifies the responses of a token endpoint: `code` and `data` are the response's own, and an unusable body is
    None. None of them counts as delivered, so none is remembered."""

    def body_limit(self, status: int) -> int:
        return MOST_BYTES

    def classify(self, status: int, headers: Headers, body: bytes, truncated: bool = False) -> Outcome:
        asked = [value for name, value in headers if name == b"retry-after"]
        wait = retry_after_s(asked[0], 0.0) if asked and asked[0].strip().isdigit() else None
        return Outcome(False, code=status, data=None if truncated else body, retry_after_s=wait)


class _Granted(msgspec.Struct):
    access_token: str
    token_type: str = "bearer"
    expires_in: float | str | None = None


class _Failed(msgspec.Struct):
    error: str


_granted = msgspec.json.Decoder(_Granted).decode
_failed = msgspec.json.Decoder(_Failed).decode


def granted(outcome: Outcome, since: float, renewal: bool, secret: str) -> tuple[Token, float]:
    """The token of a response and how many seconds it is valid. Raises `Unusable`."""
    if outcome.code is None:
        raise Unusable(outcome.reason)
    if outcome.data is None:
        raise Unusable(f"the response has more than {MOST_BYTES} bytes")
    if not 200 <= outcome.code < 300:
        raise Unusable(_refusal(outcome.code, outcome.data, secret))
    try:
        found = _granted(outcome.data)
        lifetime = _lifetime_s(found.expires_in)
        if found.token_type.lower() != "bearer":
            raise Unusable("the response has a token of another type than `bearer`")
        token = Token(found.access_token.encode(), since, renewal)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as e:
        raise Unusable("the response is not that of a token endpoint (RFC 6749 section 5.1)") from e
    except ValueError as e:  # the text of `Token`, which quotes nothing
        raise Unusable(f"the response is unusable: {e}") from e
    return token, min(max(lifetime, SHORTEST_S), LONGEST_S)


def _lifetime_s(said: float | str | None) -> float:
    """Raises `Unusable`, with nothing of what the server said."""
    try:
        lifetime = UNSAID_S if said is None else float(said)
    except ValueError:
        lifetime = math.nan
    if math.isnan(lifetime):
        raise Unusable("the response is unusable: `expires_in` is not a number")
    return lifetime


def _refusal(status: int, body: bytes, secret: str) -> str:
    """What a response without a token says. Of its body, only the error code is shown: a server may repeat the
    request in its texts."""
    try:
        text = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        text = str(status)
    try:
        error = _failed(body).error
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text
    return f"{text} ({error})" if _ERROR.fullmatch(error) and secret not in error else text
