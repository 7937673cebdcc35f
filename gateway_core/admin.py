"""The admin API's server: requests to routes, at an address of its own, by Hypercorn in the running loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from inspect import isawaitable
from urllib.parse import parse_qs

from anyio.abc import TaskGroup

from .api.guard import MAX_BODY, Guard, check_body, is_loopback
from .api.http import Answer, Problem, Request
from .api.routes import Route, Router
from .api.table import Status, described, watching_routes
from .asgi import AsgiServer, Left, Receive, Scope, Send, listening, read_body, respond, stream
from .errors import StartError

log = logging.getLogger("tidegate.admin")


def _yes() -> bool:
    return True


class Admin:
    """Status, metrics, health, an OpenAPI document, and `more` routes; anything else is a problem (RFC 9457).

    `status` gives the status document, or an awaitable of it. `ready`, `live` and `started` answer the probes: 200
    where true, else 503. Without `with_metrics` there are none. With a `token` all but the probes need it.
    """

    def __init__(
        self,
        status: Status,
        ready: Callable[[], bool] = _yes,
        live: Callable[[], bool] = _yes,
        started: Callable[[], bool] = _yes,
        *,
        with_metrics: bool = True,
        more: Sequence[Route] = (),
        token: str = "",
    ) -> None:
        probes = {"ready": ready, "live": live, "startup": started}
        self._router = Router(described([*watching_routes(status, probes, with_metrics), *more]))
        self._token = token
        self._guard: Guard
        self._server: AsgiServer | None = None

    @property
    def routes(self) -> Sequence[Route]:
        """All that it answers."""
        return self._router.routes

    async def start(self, address: str, tasks: TaskGroup) -> str:
        """Listens on `host:port` (port 0: a free one); returns the URL. Raises `StartError`."""
        try:
            sock = listening(address)
        except ValueError as e:
            raise StartError(f"admin: {e}") from e
        except OSError as e:
            raise StartError(f"admin: can't listen on {address}: {e.strerror or e}") from e
        host, port = sock.getsockname()[:2]
        if not is_loopback(host) and not self._token:
            log.warning("the admin API listens on %s, and anyone may call it: set TIDEGATE_ADMIN_TOKEN", address)
        self._guard = Guard(host, self._token)
        self._server = AsgiServer(self._app)
        self._server.start([sock], tasks, graceful_s=1.0)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Answers what is being asked, and frees the address."""
        if self._server is not None:
            await self._server.stop()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except Problem as problem:
            answer = problem.answer()
        except Left:
            raise
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            answer = Problem(500, "see the log").answer()
        headers = [(b"content-type", answer.media.encode())] if answer.status != 204 else []
        headers += [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        if answer.stream is not None and scope["method"] == "GET":
            await stream(receive, send, headers, answer.stream)
            return
        await respond(send, answer.status, headers, answer.encoded(), head=scope["method"] == "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        asked = Request(scope["method"], path, {}, headers)
        route, params = self._router.find(asked.method, path)
        self._guard.check(asked, open=route.open)
        body = await read_body(receive, MAX_BODY)
        if body is None:
            raise Problem(413, f"the body is longer than {MAX_BODY // 1024} KiB")
        request = Request(asked.method, path, params, headers, body, query)
        if request.method not in ("GET", "HEAD"):
            check_body(request)
        found = route.handler(request)
        return await found if isawaitable(found) else found
