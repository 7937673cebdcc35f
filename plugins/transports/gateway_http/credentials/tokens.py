"""Bearer tokens (RFC 6750): what a token is, and what a sink needs from whatever gets it one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Protocol

MOST_BYTES = 16 * 1024
"""The longest token that is sent."""
_TOKEN = re.compile(rb"[!-~]+")


class Token:
    """A bearer token. Its value is in no text that this object makes.

    `header`    the value of the header field `Authorization`.
    `used`      whether a sink has sent it, and `accepted` whether a subscriber has taken it.
    `renewal`   whether it replaces a token that a subscriber refused.
    `since`     when it came, and `refused` when a subscriber refused it first, in the loop's time.
    """

    __slots__ = ("accepted", "header", "refused", "renewal", "since", "used", "value")

    def __init__(self, value: bytes, since: float = 0.0, renewal: bool = False) -> None:
        """Raises `ValueError` if it can't be the value of a header field."""
        if not value or len(value) > MOST_BYTES:
            raise ValueError(f"a token has 1 to {MOST_BYTES} bytes, this one has {len(value)}")
        if not _TOKEN.fullmatch(value):
            raise ValueError("the token contains a space or a character that HTTP does not allow")
        self.value = value
        self.header = b"Bearer " + value
        self.since = since
        self.renewal = renewal
        self.refused: float | None = None
        self.used = self.accepted = False

    def __repr__(self) -> str:
        return "<Token ****>"


Ready = Callable[[Token | None], None]
"""Called once, with the token, or with None if there is none: `TokenSource.problem` says why."""


class TokenSource(Protocol):
    """Gets tokens."""

    @property
    def problem(self) -> str:
        """Why there is no token; never with a secret."""

    def start(self) -> None:
        """Begins to get tokens."""

    def stop(self) -> None:
        """Ends everything. Those who wait get None."""

    def token(self, now: float) -> Token | None:
        """The token to send now, in the loop's time; None if it has to be waited for. Runs on every event."""

    def wait(self, ready: Ready) -> None:
        """Calls `ready` when there is a token, or when it is known that there is none for now; perhaps at once."""

    def refused(self, token: Token) -> bool:
        """A subscriber refused this token (401). Returns whether another attempt may get a better one."""


class NoToken(OSError):
    """There is no token for now; the text says why."""


async def next_token(source: TokenSource) -> Token:
    """The token to send now, of a source that was started. Raises `NoToken`."""
    loop = asyncio.get_running_loop()
    token = source.token(loop.time())
    if token is None:
        found: asyncio.Future[Token | None] = loop.create_future()
        source.wait(lambda token: None if found.done() else found.set_result(token))
        token = await found
    if token is None:
        raise NoToken(f"no access token: {source.problem}")
    token.used = True
    return token
