"""The route table: which method and path is answered by what, and what the answers are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from .http import JSON, YAML, Handler, Problem


@dataclass(frozen=True, slots=True)
class Text:
    """A body that is no JSON."""

    media: str


@dataclass(frozen=True, slots=True)
class Route:
    """`answers` has the model, or `Text`, of each status that is no problem, None for no body; `problems` the others
    beside those that every route may have. `body` names what it takes, `takes` the media types of that; `query` says
    what the parameters after `?` mean. A route that is `open` needs no token."""

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Any]
    problems: Sequence[int] = ()
    body: str = ""
    open: bool = False
    takes: Sequence[str] = (JSON, YAML[0])
    query: Mapping[str, str] = field(default_factory=dict)

    def match(self, path: str) -> dict[str, str] | None:
        """The parts of a path that the route names; None where it is another's."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path))
        found = re.fullmatch(pattern, path)
        return {name: unquote(part) for name, part in found.groupdict().items()} if found else None


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = routes

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route and the parts of the path. HEAD is answered as GET. Raises `Problem`."""
        here = [(route, params) for route in self.routes if (params := route.match(path)) is not None]
        if not here:
            raise Problem(404, f"there is nothing at {path}")
        for route, params in here:
            if route.method == ("GET" if method == "HEAD" else method):
                return route, params
        allowed = [
            m for route, _ in here for m in ((route.method, "HEAD") if route.method == "GET" else (route.method,))
        ]
        known = "GET only" if allowed == ["GET", "HEAD"] else " and ".join(allowed)
        raise Problem(405, f"{path} knows {known}", headers={"allow": ", ".join(allowed)})
