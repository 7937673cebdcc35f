"""A bearer token from a file that somebody else keeps fresh, such as the kubelet (projected service account tokens)."""

from __future__ import annotations

import asyncio
import base64
import logging

import msgspec
from gateway_options.renewed import CHECK_S, Renewed

from gateway_core.contract.files import read_regular
from gateway_core.contract.one_line import one_line

from .config import BearerFileConfig
from .tokens import MOST_BYTES, Ready, Token

log = logging.getLogger("tidegate.credentials")


class _Claims(msgspec.Struct):
    aud: str | list[str] = ""


_decode = msgspec.json.Decoder(_Claims).decode


class BearerFile:
    """`tokens.TokenSource`. A file without a usable token changes nothing: the last one is sent until there is another
    (`Renewed`). That of a file that was removed is sent no longer."""

    def __init__(self, options: BearerFileConfig, owner: str) -> None:
        self._options = options
        self._owner = owner
        self._renewed: Renewed[Token | None] | None = None  # None until there is a first token
        self._next_try = float("-inf")
        self.problem = ""

    def start(self) -> None:
        return

    def stop(self) -> None:
        return

    def token(self, now: float) -> Token | None:
        if self._renewed is not None:
            return self._renewed.current()
        if now >= self._next_try:
            self._next_try = now + CHECK_S
            self._begin()
        return self._renewed.current() if self._renewed is not None else None

    def wait(self, ready: Ready) -> None:
        ready(self.token(asyncio.get_running_loop().time()))

    def refused(self, token: Token) -> bool:
        """See `TokenSource`. The file may hold another token that was not seen yet."""
        now = asyncio.get_running_loop().time()
        if token.refused is None:
            token.refused = now
        return token is not self.token(now) or now - token.refused <= CHECK_S

    def _begin(self) -> None:
        try:
            self._renewed = Renewed([self._options.path], self._made, self._owner, "bearer tokens", gone=self._gone)
            return
        except (OSError, ValueError) as e:
            text = e.strerror or type(e).__name__ if isinstance(e, OSError) else str(e)
        problem = one_line(f"{self._options.path}: {text}")
        if problem != self.problem:
            self.problem = problem
            log.warning("%s: no bearer token in %s", self._owner, problem)

    def _gone(self) -> None:
        self.problem = one_line(f"{self._options.path} was removed")

    def _made(self) -> Token:
        """Raises `OSError` or `ValueError`, never with a token in its text."""
        value = read_regular(self._options.path, MOST_BYTES + 1)[0].strip()
        if self._options.audience is not None and self._options.audience not in _audiences(value):
            raise ValueError(f"the token is not for the audience `{self._options.audience}`")
        return Token(value)


def _audiences(token: bytes) -> list[str]:
    """The audiences that a JWT names (RFC 7519 section 4.1.3). Its signature is for the subscriber to verify."""
    part = [*token.split(b"."), b""][1]
    try:
        claims = _decode(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return []
    return [claims.aud] if isinstance(claims.aud, str) else claims.aud
