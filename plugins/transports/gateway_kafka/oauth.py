"""Tokens for OAUTHBEARER: from a file, or from an OAuth 2.0 token endpoint (RFC 6749 section 4.4)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from gateway_core.contract.files import read_regular
from gateway_core.contract.one_line import one_line
from gateway_core.contract.options import HIDDEN

from .client import KafkaFault
from .client_config import OAuthConfig

_ASSUMED_S = 300.0  # RFC 6749 section 5.1: the response need not say when the token expires
_MAX_BYTES = 1 << 20  # of a response; tokens have a few kilobytes
_LONGEST_S = 7 * 24 * 3600.0  # whatever the endpoint says
_EARLY = 0.8  # a token is replaced after this part of its lifetime


class Token(NamedTuple):
    """A token and its expiry (Unix time in seconds)."""

    value: str
    ends: float


class Tokens:
    """Gets tokens, and caches a token of the endpoint until most of its lifetime is over. Several threads may use it;
    at worst each fetches a token."""

    def __init__(self, config: OAuthConfig, timeout_s: float) -> None:
        self._config = config
        self._timeout = timeout_s
        self._token: Token | None = None
        self._renew = 0.0

    async def token(self) -> Token:
        """A valid token. Raises `KafkaFault`, with `credentials` if the endpoint rejects ours."""
        if (path := self._config.token_file) is not None:
            return await asyncio.to_thread(_from_file, path)
        if (known := self._known()) is not None:
            return known
        # the client loads its certificate authorities from disk when it is created
        async with await asyncio.to_thread(httpx.AsyncClient, timeout=self._timeout) as client:
            try:
                async with (
                    asyncio.timeout(self._timeout),  # the client's own limit is for each part of the response
                    client.stream("POST", self._url(), **self._request()) as answer,
                ):
                    body = bytearray()
                    async for part in answer.aiter_bytes():
                        self._add(body, part)
            except (httpx.HTTPError, TimeoutError) as error:
                raise self._fault(error) from error
        return self._taken(answer.status_code, bytes(body))

    def token_now(self) -> Token:
        """Like `token`, for a thread that may block."""
        if (path := self._config.token_file) is not None:
            return _from_file(path)
        if (known := self._known()) is not None:
            return known
        body = bytearray()
        end = time.monotonic() + self._timeout
        try:
            with httpx.stream("POST", self._url(), timeout=self._timeout, **self._request()) as answer:
                for part in answer.iter_bytes():
                    self._add(body, part)
                    if time.monotonic() > end:
                        raise TimeoutError
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._fault(error) from error
        return self._taken(answer.status_code, bytes(body))

    def _add(self, body: bytearray, part: bytes) -> None:
        """Adds a part of the response. Raises `KafkaFault` if it becomes too large."""
        body += part
        if len(body) > _MAX_BYTES:
            raise KafkaFault(f"the response of the token endpoint {self._url()} is larger than {_MAX_BYTES} bytes")

    def _known(self) -> Token | None:
        return self._token if time.time() < self._renew else None

    def _url(self) -> str:
        assert self._config.token_url is not None
        return self._config.token_url

    def _request(self) -> dict[str, Any]:
        form = {"grant_type": "client_credentials"}
        if self._config.scope is not None:
            form["scope"] = self._config.scope
        who = (self._config.client_id or "", self._config.client_secret or "")
        return {"data": form, "auth": who, "headers": {"accept": "application/json"}}

    def _fault(self, error: Exception) -> KafkaFault:
        return KafkaFault(f"the token endpoint {self._url()} does not answer: {str(error) or type(error).__name__}")

    def _taken(self, status: int, body: bytes) -> Token:
        if status != 200:
            text = one_line(body.decode(errors="replace").replace(self._config.client_secret or HIDDEN, HIDDEN))
            refused = status in (400, 401, 403)
            raise KafkaFault(f"the token endpoint {self._url()} answered {status}: {text}", credentials=refused)
        try:
            found = _decode(body)
            life = _ASSUMED_S if found.expires_in is None else float(found.expires_in)
            if math.isnan(life):
                raise msgspec.DecodeError("`expires_in` is not a number")
        except msgspec.DecodeError as error:
            raise KafkaFault(f"the token endpoint {self._url()} answered no token: {error}") from error
        except (ValueError, OverflowError, RecursionError) as error:  # their texts may quote the response
            raise KafkaFault(f"the token endpoint {self._url()} answered no token") from error
        now, life = time.time(), min(max(life, 0.0), _LONGEST_S)
        self._token = Token(found.access_token, now + life)
        self._renew = now + life * _EARLY
        return self._token


class _Answer(msgspec.Struct):
    """RFC 6749 section 5.1."""

    access_token: str
    expires_in: float | str | None = None


_decode = msgspec.json.Decoder(_Answer).decode


def _from_file(path: Path) -> Token:
    try:
        content, _ = read_regular(path, _MAX_BYTES)
        value = content.decode("ascii").strip()
    except OSError as error:
        raise KafkaFault(f"the token file {path} can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise KafkaFault(f"the token file {path} can't be read: it is not ASCII") from None
    if not value:
        raise KafkaFault(f"the token file {path} is empty")
    return Token(value, _end(value) or time.time() + _ASSUMED_S)


def _end(token: str) -> float | None:
    """The expiry in a JSON Web Token (RFC 7519 section 4.1.4), or None for another kind of token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=="), type=dict[str, Any])
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None
    end = claims.get("exp")
    return float(end) if isinstance(end, int | float) else None
