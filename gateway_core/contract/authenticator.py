"""What an authenticator must be able to do, and how requests are refused.

Source: RFC 9110 section 11 (401, 403), RFC 6585 section 4 (429), RFC 9457 (problem details).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, runtime_checkable

from anyio.abc import TaskGroup

from .errors import Refused
from .event import Message
from .identity import Identity


class Authenticator(Protocol):
    """Finds out who sends a request. A component of the kind `authenticator` builds one.

    `challenge` tells clients what to send (`WWW-Authenticate`, such as `Bearer realm="tidegate"`); "" if there is no
    scheme for it.
    """

    challenge: str

    async def start(self, tasks: TaskGroup) -> None:
        """Starts. It does not fail if a remote side is down; requests are then refused until it is up again."""

    async def stop(self) -> None:
        """Releases all resources."""

    def authenticate(self, request: Message) -> Identity | Awaitable[Identity | None] | None:
        """The sender of a request: its headers (names in lower case), body, method, URL (path and query) and `peer`
        (`gateway_core.contract.peer.Peer`). None if the request has no credentials of this kind; the next authenticator
        then looks. Raises `Unauthenticated` if the credentials are wrong, `Overloaded` if they can't be checked now. It
        must be quick: what takes longer returns an awaitable."""


@runtime_checkable
class Recognizing(Protocol):
    """An authenticator that can tell at once who sends, if the same credentials came before."""

    def recognize(self, request: Message) -> Identity | None:
        """The sender of a request. None unless `authenticate` would return the same; it looks then. Does not raise."""


@runtime_checkable
class Presented(Protocol):
    """An authenticator whose credentials come in a place of their own. `Authorization` need not be listed."""

    @property
    def presented_in(self) -> tuple[bytes | None, str | None]:
        """The name of the header field, in lower case, and that of the query parameter."""


@runtime_checkable
class Reporting(Protocol):
    """An authenticator that reports its state."""

    def info(self) -> dict[str, Any]:
        """For status: `error` (None while all is well), and whatever else helps; never a credential. What workers say
        is merged as other details of sources are: numbers are added up, of texts and lists the first counts."""


class Unauthenticated(Refused):
    """The sender did not prove who it is (401). The detail never holds a credential."""

    def __init__(self, detail: str, challenges: Sequence[str] = (), *, rule: str = "") -> None:
        super().__init__(detail, status=401, rule=rule)
        self.challenged_by(challenges)

    def challenged_by(self, challenges: Sequence[str]) -> None:
        """Sets what the answer asks for."""
        self.headers = tuple((b"www-authenticate", challenge.encode()) for challenge in challenges if challenge)


class Forbidden(Refused):
    """The sender is known, and may not send this (403)."""

    def __init__(self, detail: str, *, rule: str = "", attribute: str = "") -> None:
        super().__init__(detail, status=403, rule=rule, attribute=attribute)


class TooManyRequests(Refused):
    """The sender has used up its quota (429). `retry_after_s` is when there is room again, in seconds."""

    def __init__(self, detail: str, retry_after_s: float) -> None:
        super().__init__(detail, status=429)
        self.retry_after_s = retry_after_s
        self.headers = ((b"retry-after", b"%d" % max(1, math.ceil(retry_after_s))),)
