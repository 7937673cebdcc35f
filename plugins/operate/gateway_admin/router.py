"""Finds the route of a request."""

from __future__ import annotations

from collections.abc import Sequence

from gateway_api.routes import Problem, Route, Tell


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = routes

    def tells(self, path: str) -> Tell | None:
        """How a path that is none is told of, if it is below that of a page."""
        return next((route.tell for route in self.routes if route.tell and path.startswith(f"{route.path}/")), None)

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route and the parameters in the path. HEAD counts as GET. Raises `Problem`."""
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
        raise Problem(405, f"{path} supports {known}", headers={"allow": ", ".join(allowed)})
