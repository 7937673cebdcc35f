"""The admin API: status and health over HTTP, on an address of its own, served by Hypercorn in the running loop."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, cast

import anyio
import msgspec
from anyio.abc import TaskGroup

from .errors import StartError

log = logging.getLogger("tidegate.admin")

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Status = Callable[[], dict[str, Any] | Awaitable[dict[str, Any]]]

_JSON = b"application/json"
_PROBLEM = b"application/problem+json"
_TITLES = {404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error"}


def _yes() -> bool:
    return True


class Admin:
    """`GET /status`, `/health/live`, `/health/ready` and `/health/startup`; anything else is a problem (RFC 9457).

    `status` gives the status document, or an awaitable of it. `ready`, `live` and `started` answer the probes: 200
    where true, else 503.
    """

    def __init__(
        self,
        status: Status,
        ready: Callable[[], bool] = _yes,
        live: Callable[[], bool] = _yes,
        started: Callable[[], bool] = _yes,
    ) -> None:
        self._status = status
        self._probes = {"/health/ready": ready, "/health/live": live, "/health/startup": started}
        self._stopping: anyio.Event | None = None
        self._stopped: anyio.Event | None = None

    async def start(self, address: str, tasks: TaskGroup) -> str:
        """Listens on `host:port` (port 0: a free one); returns the URL. Raises `StartError`."""
        sock = _listen(address)
        host, port = sock.getsockname()[:2]
        if not ipaddress.ip_address(host).is_loopback:
            log.warning("the admin API has no authentication and listens on %s", address)
        self._stopping, self._stopped = anyio.Event(), anyio.Event()
        tasks.start_soon(self._serve, sock, self._stopping, self._stopped)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Answers what is being asked, and frees the address."""
        if self._stopping is not None and self._stopped is not None:
            self._stopping.set()
            await self._stopped.wait()

    async def _serve(self, sock: socket.socket, stopping: anyio.Event, stopped: anyio.Event) -> None:
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        config = Config()
        config.bind = [f"fd://{sock.detach()}"]
        config.accesslog = None
        config.errorlog = logging.getLogger("hypercorn.error")
        config.include_server_header = False
        config.graceful_timeout = 1.0
        try:
            await serve(cast("Any", self), config, shutdown_trigger=stopping.wait, mode="asgi")
        finally:
            stopped.set()

    # -- the ASGI application ---------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            status, body, kind, headers = await self._answer(scope["method"], scope["path"])
            headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
        # a WebSocket that nobody accepts is refused by the server

    async def _answer(self, method: str, path: str) -> tuple[int, bytes, bytes, list[tuple[bytes, bytes]]]:
        probe = self._probes.get(path)
        if probe is None and path != "/status":
            return 404, _problem(404, f"there is nothing at {path}"), _PROBLEM, []
        if method not in ("GET", "HEAD"):
            return 405, _problem(405, f"{path} knows GET only"), _PROBLEM, [(b"allow", b"GET, HEAD")]
        try:
            if probe is not None:
                good = probe()
                word = path.rpartition("/")[2]
                return 200 if good else 503, msgspec.json.encode({word: good}), _JSON, [(b"cache-control", b"no-store")]
            status = self._status()
            document = await status if isawaitable(status) else status
            return 200, msgspec.json.encode(document, enc_hook=str), _JSON, [(b"cache-control", b"no-store")]
        except Exception:
            log.exception("%s %s failed", method, path)
            return 500, _problem(500, "see the log"), _PROBLEM, []


def _problem(status: int, detail: str) -> bytes:
    return msgspec.json.encode({"type": "about:blank", "title": _TITLES[status], "status": status, "detail": detail})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` (`[::1]:9080` for IPv6). Raises `ValueError`."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{address!r} is no address: write HOST:PORT")
    return host, int(port)


def _listen(address: str) -> socket.socket:
    try:
        host, port = split_address(address)
    except ValueError as e:
        raise StartError(f"admin: {e}") from e
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
            sock.listen(100)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
    except OSError as e:
        raise StartError(f"admin: can't listen on {address}: {e.strerror or e}") from e
    return sock
