"""The admin API's server: passes requests to routes, at its own address."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from pathlib import Path
from urllib.parse import parse_qs

import anyio
from anyio.abc import TaskGroup
from gateway_api.routes import Answer, Problem, Request, Route
from gateway_audit_log.log import AuditLog
from gateway_serving.asgi import (
    AsgiServer,
    ClientDisconnected,
    Receive,
    Scope,
    Send,
    listening,
    read_body,
    respond,
    stream,
)
from gateway_serving.limits import ListenerLimits
from gateway_serving.tls import ServerTls
from gateway_serving.unexpected import log_unexpected

from gateway_core.contract.component import OwnMetric
from gateway_core.contract.errors import StartError

from .attempt import Attempt
from .callers import Caller, Callers, Nobody, local_user_name
from .certificate import certificate
from .guard import MAX_BODY, Guard, LocalGuard, check_body, check_forgery, check_role, exposed
from .router import Router
from .watching import Status, described, watching_routes

log = logging.getLogger("tidegate.admin")

LIMITS = ListenerLimits(max_connections=256, max_unfinished_bytes=16 * 1024 * 1024)
MOST_STREAMS = LIMITS.max_connections // 2
"""Streams that are open at once. The other connections are for requests, such as those of probes."""
_ALWAYS = {"x-content-type-options": "nosniff"}
"""Browsers read what they get as what it says that it is."""
_MOST_FIELDS = 1000
RECHECK_S = 5.0
"""How often a stream asks again whether its reader may read it. It does so when it has something to write; a stream of
events writes at least as often."""

_REMEDY = (
    'set another address with --admin or TIDEGATE_ADMIN ("socket": only the socket in the data directory; "off": none)'
)


def _yes() -> bool:
    return True


class Admin:
    """Serves status, metrics, health, an OpenAPI document, and `more` routes; errors are problem documents (RFC 9457).

    `status` returns the status document, or an awaitable of it. `ready`, `live` and `started` answer the probes: 200 if
    true, else 503. Without `with_metrics` there are no metrics; `own_metrics` are those that components declare.
    `callers` knows who calls; nobody needs to be known for the probes. `names` are accepted host names besides the
    server's addresses. `audit` gets each change, and each request that was denied. `load` returns `more` routes once a
    request needs one that is not there from the start.
    """

    def __init__(
        self,
        status: Status,
        ready: Callable[[], bool] = _yes,
        live: Callable[[], bool] = _yes,
        started: Callable[[], bool] = _yes,
        *,
        with_metrics: bool = True,
        own_metrics: Sequence[OwnMetric] = (),
        more: Sequence[Route] = (),
        callers: Callers | None = None,
        names: Sequence[str] = (),
        audit: AuditLog | None = None,
        load: Callable[[], Awaitable[Sequence[Route]]] | None = None,
    ) -> None:
        probes = {"ready": ready, "live": live, "startup": started}
        self.watching = watching_routes(status, probes, with_metrics, own_metrics)
        """Routes of its own."""
        some = [*self.watching, *more]
        self._router = Router(described(some) if load is None else some)
        self._load = load
        self._loading = anyio.Lock()
        self._callers = callers or Nobody()
        self._names = names
        self._audit = audit
        self._servers: list[AsgiServer] = []
        self._streams = 0

    @property
    def routes(self) -> Sequence[Route]:
        """All routes that are loaded."""
        return self._router.routes

    async def _find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """`Router.find`, among all routes."""
        try:
            return self._router.find(method, path)
        except Problem:
            async with self._loading:
                if self._load is not None:
                    self._router = Router(described([*self.watching, *await self._load()]))
                    self._load = None
            return self._router.find(method, path)

    async def start(self, address: str, tasks: TaskGroup, tls: Path | None = None) -> str:
        """Listens on `host:port` (port 0: a free one), with the certificate in `tls`; returns the URL. Raises
        `StartError`."""
        secure = certificate(tls) if tls is not None else None
        try:
            if secure is None and exposed(address):
                log.warning("the admin API at %s is not encrypted: who can listen in sees tokens and events", address)
            sock = listening(address)
        except ValueError as e:
            raise StartError(f"admin: {e}: {_REMEDY}") from e
        except OSError as e:
            raise StartError(f"admin: can't listen on {address}: {e.strerror or e}: {_REMEDY}") from e
        host, port = sock.getsockname()[:2]
        self._serve(sock, Guard(host, self._callers, self._names), tasks, secure)
        scheme = "http" if secure is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def start_local(self, sock: socket.socket, tasks: TaskGroup) -> None:
        """Also serves on a listening unix socket. The permissions of the file control access, so no token is
        required."""
        self._serve(sock, LocalGuard(), tasks)

    def _serve(
        self, sock: socket.socket, guard: Guard | LocalGuard, tasks: TaskGroup, tls: ServerTls | None = None
    ) -> None:
        server = AsgiServer(partial(self._app, guard), LIMITS, MAX_BODY, tls, makes_room=True)
        server.start([sock], tasks, graceful_s=1.0)
        self._servers.append(server)

    async def stop(self) -> None:
        """Finishes the current requests and frees the addresses."""
        async with anyio.create_task_group() as stopping:
            for server in self._servers:
                stopping.start_soon(server.stop)

    async def _app(self, guard: Guard | LocalGuard, scope: Scope, receive: Receive, send: Send) -> None:
        attempt = Attempt(scope["method"], scope["client"][0] if scope["client"] else "")
        try:
            answer = await self._answer(guard, scope, receive, attempt)
            if answer.stream is not None and self._streams >= MOST_STREAMS:
                raise Problem(503, f"{MOST_STREAMS} streams are open already", headers={"retry-after": "5"})
        except Problem as problem:
            answer = problem.answer()
            attempt.failed(problem.status, problem.detail)
        except ClientDisconnected:
            raise
        except Exception as e:
            log_unexpected(log, "answering a request of the API", e)
            answer = Problem(500, "see the log").answer()
            attempt.failed(500, "see the log")
        if self._audit is not None:
            attempt.record(self._audit)
        headers = [(b"content-type", answer.media.encode())] if answer.status != 204 else []
        headers += [(name.encode(), value.encode()) for name, value in ({**_ALWAYS, **answer.headers}).items()]
        if answer.stream is not None and scope["method"] == "GET":
            self._streams += 1
            try:
                await stream(receive, send, headers, self._while_allowed(guard, attempt, answer.stream))
            finally:
                self._streams -= 1
            return
        await respond(
            send, answer.status, headers, *(answer.chunks or [answer.encoded()]), head=scope["method"] == "HEAD"
        )

    async def _while_allowed(
        self, guard: Guard | LocalGuard, attempt: Attempt, parts: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """The parts of a stream, until its reader's token ends or loses its role."""
        due_s = time.monotonic() + RECHECK_S
        async with aclosing(parts):  # type: ignore[type-var]
            async for part in parts:
                if time.monotonic() >= due_s:
                    try:
                        assert attempt.asked is not None
                        assert attempt.route is not None
                        check_role(await guard.check(attempt.asked), attempt.route.needs)
                    except Problem as problem:
                        attempt.failed(problem.status, problem.detail)
                        if self._audit is not None:
                            attempt.record(self._audit)
                        return
                    due_s = time.monotonic() + RECHECK_S
                yield part

    async def _answer(self, guard: Guard | LocalGuard, scope: Scope, receive: Receive, attempt: Attempt) -> Answer:
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
        headers = _combined(scope["headers"])
        user = local_user_name(scope.get("uid"))
        secure = scope.get("scheme") == "https"
        asked = Request(scope["method"], path, {}, headers, peer=attempt.peer, user=user, secure=secure)
        attempt.path, attempt.asked = path, asked
        guard.check_host(asked)
        if not secure and guard.is_secure(asked):
            asked = attempt.asked = replace(asked, secure=True)
        try:
            fields = scope["query_string"].decode("latin-1")
            query = parse_qs(fields, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError as e:
            raise Problem(400, f"the query has more than {_MOST_FIELDS} parameters") from e
        try:
            route, params = await self._find(asked.method, path)
        except Problem as missing:
            return await self._missing(guard, asked, missing, attempt)
        attempt.route, attempt.params = route, params
        asked = attempt.asked = replace(asked, params=params, query=query)
        try:
            return await self._routed(guard, route, asked, receive, attempt)
        except Problem as e:
            problem = e
        except ClientDisconnected:
            raise
        except Exception as e:
            log_unexpected(log, "answering a request of the API", e)
            problem = Problem(500, "see the log")
        attempt.failed(problem.status, problem.detail)
        if route.tell is None:
            return problem.answer()
        return route.tell(_called(attempt.asked, attempt.caller), problem)

    async def _missing(self, guard: Guard | LocalGuard, asked: Request, missing: Problem, attempt: Attempt) -> Answer:
        """The answer to a request for nothing that there is; strangers are not told what there is."""
        tell, problem = self._router.tells(asked.path), missing
        try:
            attempt.caller = await guard.check(asked)
        except Problem as e:
            problem = e
        if tell is None:
            raise problem
        attempt.failed(problem.status, problem.detail)
        return tell(_called(asked, attempt.caller), problem)

    async def _routed(
        self, guard: Guard | LocalGuard, route: Route, asked: Request, receive: Receive, attempt: Attempt
    ) -> Answer:
        caller = None
        if not route.open:
            caller = attempt.caller = await guard.check(asked)
            check_role(caller, route.needs)
            guard.check_change(asked, route.takes)
        body = await read_body(receive, MAX_BODY)
        if body is None:
            raise Problem(413, f"the body is longer than {MAX_BODY // 1024} KiB")
        request = attempt.asked = replace(asked, body=body)
        if request.method not in ("GET", "HEAD"):
            check_body(request)
        if caller is not None:
            check_forgery(caller, request)
            request = _called(request, caller)
        found = route.handler(request)
        answer = await found if isawaitable(found) else found
        attempt.facts = answer.facts
        return answer


def _called(request: Request, caller: Caller | None) -> Request:
    """The request with who sends it."""
    if caller is None:
        return request
    return replace(request, who=caller.who, role=caller.role, csrf=caller.csrf, end_s=caller.end_s)


def _combined(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The fields by name. Several of one name are one list (RFC 9110 section 5.2), so that two tokens are a wrong one,
    and nobody can slip in a second `Origin`."""
    headers: dict[str, str] = {}
    for raw, value in fields:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers
