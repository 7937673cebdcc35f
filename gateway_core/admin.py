"""The admin API: status, metrics and health over HTTP, at an address of its own, by Hypercorn in the running loop."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

import msgspec
from anyio.abc import TaskGroup

from . import metrics
from .asgi import AsgiServer, Receive, Scope, Send, listening, respond
from .errors import StartError

log = logging.getLogger("tidegate.admin")

Status = Callable[[], dict[str, Any] | Awaitable[dict[str, Any]]]

_JSON = b"application/json"
_PROBLEM = b"application/problem+json"
_TITLES = {404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error"}


def _yes() -> bool:
    return True


class Admin:
    """`GET /status`, `/metrics`, `/health/live`, `/health/ready` and `/health/startup`; anything else is a problem
    (RFC 9457).

    `status` gives the status document, or an awaitable of it. `ready`, `live` and `started` answer the probes: 200
    where true, else 503. Without `with_metrics` there are none.
    """

    def __init__(
        self,
        status: Status,
        ready: Callable[[], bool] = _yes,
        live: Callable[[], bool] = _yes,
        started: Callable[[], bool] = _yes,
        *,
        with_metrics: bool = True,
    ) -> None:
        self._status = status
        self._probes = {"/health/ready": ready, "/health/live": live, "/health/startup": started}
        self._with_metrics = with_metrics
        self._server: AsgiServer | None = None

    async def start(self, address: str, tasks: TaskGroup) -> str:
        """Listens on `host:port` (port 0: a free one); returns the URL. Raises `StartError`."""
        try:
            sock = listening(address)
        except ValueError as e:
            raise StartError(f"admin: {e}") from e
        except OSError as e:
            raise StartError(f"admin: can't listen on {address}: {e.strerror or e}") from e
        host, port = sock.getsockname()[:2]
        if not ipaddress.ip_address(host).is_loopback:
            log.warning("the admin API has no authentication and listens on %s", address)
        self._server = AsgiServer(self._app)
        self._server.start([sock], tasks, graceful_s=1.0)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Answers what is being asked, and frees the address."""
        if self._server is not None:
            await self._server.stop()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, body, kind, headers = await self._answer(scope["method"], scope["path"])
        await respond(send, status, [(b"content-type", kind), *headers], body, head=scope["method"] == "HEAD")

    async def _answer(self, method: str, path: str) -> tuple[int, bytes, bytes, list[tuple[bytes, bytes]]]:
        probe = self._probes.get(path)
        if probe is None and path not in ("/status", "/metrics"):
            return 404, _problem(404, f"there is nothing at {path}"), _PROBLEM, []
        if path == "/metrics" and not self._with_metrics:
            return 404, _problem(404, "metrics are off by a setting of the gateway (TIDEGATE_METRICS)"), _PROBLEM, []
        if method not in ("GET", "HEAD"):
            return 405, _problem(405, f"{path} knows GET only"), _PROBLEM, [(b"allow", b"GET, HEAD")]
        try:
            if probe is not None:
                good = probe()
                word = path.rpartition("/")[2]
                return 200 if good else 503, msgspec.json.encode({word: good}), _JSON, [(b"cache-control", b"no-store")]
            status = self._status()
            document = await status if isawaitable(status) else status
            if path == "/metrics":
                return 200, metrics.render(document).encode(), metrics.CONTENT_TYPE, []
            return 200, msgspec.json.encode(document, enc_hook=str), _JSON, [(b"cache-control", b"no-store")]
        except Exception:
            log.exception("%s %s failed", method, path)
            return 500, _problem(500, "see the log"), _PROBLEM, []


def _problem(status: int, detail: str) -> bytes:
    return msgspec.json.encode({"type": "about:blank", "title": _TITLES[status], "status": status, "detail": detail})
