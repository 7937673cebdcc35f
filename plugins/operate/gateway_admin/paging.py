"""Pages and filters of long lists: `limit`, `after` and `search`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from urllib.parse import urlencode

from gateway_api.routes import Problem, Request

T = TypeVar("T")

MOST = 10_000
QUERY = {
    "search": "Only entries whose name contains this text, in any case.",
    "limit": f"At most so many entries, sorted by name (1 to {MOST}); the header `link` has the next page, if any.",
    "after": "Only entries whose names come after this one.",
}
"""What the parameters mean."""


def paged(request: Request, entries: Iterable[T], name_of: Callable[[T], str]) -> tuple[list[T], dict[str, str]]:
    """The entries that a request asks for, and the headers that lead to the next ones. Without `limit` and `after` the
    order stays. Raises `Problem`."""
    text, after, limit = (request.asked("search") or "").lower(), request.asked("after"), _limit(request)
    found = [entry for entry in entries if text in name_of(entry).lower()] if text else list(entries)
    if after is not None or limit is not None:
        found = sorted([entry for entry in found if name_of(entry) > after] if after else found, key=name_of)
    if limit is None or len(found) <= limit:
        return found, {}
    found = found[:limit]
    query = {"limit": str(limit), "after": name_of(found[-1]), **({"search": text} if text else {})}
    return found, {"link": f'<{request.path}?{urlencode(query)}>; rel="next"'}


def _limit(request: Request) -> int | None:
    if (asked := request.asked("limit")) is None:
        return None
    if not asked.isdecimal() or not asked.isascii() or len(asked) > 6 or not 1 <= int(asked) <= MOST:
        raise Problem(400, f"`limit` is a number from 1 to {MOST}")
    return int(asked)
