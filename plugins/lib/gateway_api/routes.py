"""Routes of the admin API: requests, answers and problems, without the server. A service of any plugin may add some
(`OffersRoutes`)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol, runtime_checkable
from urllib.parse import parse_qsl, unquote

import msgspec
from anyio import to_thread

from gateway_core.contract.configs import Described, Registry, is_shipped
from gateway_core.contract.errors import Fault, StartError, TidegateError
from gateway_core.contract.options import Config
from gateway_core.contract.services import GatewayView

from .roles import Role

JSON = "application/json"
PROBLEM = "application/problem+json"
FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 1000
YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


@dataclass(frozen=True, slots=True)
class Request:
    """`params` are the parts of the path that the route names, `query` has the values of each parameter after `?`;
    header names are in lower case. `peer` is the client's address without port, "" at the socket; there `user`
    is the name of the client's user, if the system tells it. `secure` is true with TLS, also of a proxy that the
    settings name. `who` calls in which `role`; `csrf` is the CSRF token of a browser's session. `end_s` is when the
    caller's token ends, in Unix time, 0 if it does not; None if the caller has credentials that must be checked again
    while they are used."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    peer: str = ""
    user: str = ""
    secure: bool = False
    who: str = ""
    role: Role | None = None
    csrf: str = ""
    end_s: int | None = None

    def asked(self, name: str) -> str | None:
        """The value of a query parameter; the last one if there are several, None if there is none."""
        values = self.query.get(name)
        return values[-1] if values else None

    @property
    def media(self) -> str:
        """The body's media type, without parameters; "" if it has none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of a form; the last one of several of the same name. Empty for other bodies. Raises `Problem`."""
        if self.media != FORM:
            return {}
        try:
            return dict(parse_qsl(self.body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
        except ValueError as e:
            raise Problem(400, f"the form can't be read: at most {_MOST_FIELDS} fields, in UTF-8") from e


@dataclass(frozen=True, slots=True)
class Answer:
    """`document` is written as JSON, unless there is a `body`, or `chunks` of it; or the answer is a `stream`,
    which is closed when its reader disconnects. `facts` are what the audit log says of a change."""

    document: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON
    body: bytes | None = None
    chunks: Sequence[bytes] = ()
    stream: AsyncIterator[bytes] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """The body."""
        if self.body is not None:
            return self.body
        return b"" if self.document is None else msgspec.json.encode(self.document, enc_hook=str)


def encoded(document: Mapping[str, Any], name: str, items: Iterable[Any]) -> Iterator[bytes]:
    """A document as JSON with these items in its list `name`, each item in a piece of its own. An item that is None is
    none, only a step on the way to the next."""
    for number, (key, value) in enumerate(document.items()):
        yield (b"," if number else b"{") + msgspec.json.encode(key) + b":"
        if key != name:
            yield msgspec.json.encode(value, enc_hook=str)
            continue
        comma = b"["
        for item in items:
            yield b"" if item is None else comma + msgspec.json.encode(item, enc_hook=str)
            comma = comma if item is None else b","
        yield b"[]" if comma == b"[" else b"]"
    yield b"}"


class Problem(TidegateError):
    """A request can't be served: an RFC 9457 problem. `faults` are those of a config."""

    def __init__(
        self, status: int, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.faults = faults
        self.headers = headers or {}

    def answer(self) -> Answer:
        """What the caller gets."""
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.faults:
            document["faults"] = [fault_document(f) for f in self.faults]
        return Answer(document, self.status, self.headers, PROBLEM)


def fault_document(fault: Fault) -> dict[str, Any]:
    """A fault of a config; without `file` it is in the request's body."""
    return {
        "message": fault.message,
        "path": fault.path,
        "file": fault.file or None,
        "line": fault.line or None,
        "remedy": fault.remedy,
    }


Handler = Callable[[Request], Answer | Awaitable[Answer]]
Tell = Callable[[Request, Problem], Answer]
"""Builds the problem response."""


class Model(Config):
    """The base of documents in answers; attributes' docstrings become descriptions in the OpenAPI document."""


@dataclass(frozen=True, slots=True)
class Text:
    """A body that is not JSON."""

    media: str


@dataclass(frozen=True, slots=True)
class Route:
    """`answers` has the model, or `Text`, of each status that is not a problem, None for no body; `problems` the others
    beside those that every route may have. `body` names what it takes, `takes` the media types of that; `query` says
    what the parameters after `?` mean. `role` says who may call; without one it is an admin. A route that is `open`
    needs no token. `action` is the audit log's word for a change ("trigger.apply"), "" if the route changes
    nothing. `tell` builds the problem response; without it, that is a problem document. Pages for people are not
    `described` in the OpenAPI document."""

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
    role: Role | None = None
    action: str = ""
    tell: Tell | None = None
    described: bool = True

    @property
    def needs(self) -> Role:
        """The role that a caller needs."""
        return self.role or "admin"

    def match(self, path: str) -> dict[str, str] | None:
        """The named parts of a path; None if the route does not match it."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path))
        found = re.fullmatch(pattern, path)
        return {name: unquote(part) for name, part in found.groupdict().items()} if found else None


@runtime_checkable
class OffersRoutes(Protocol):
    """A running service that adds routes to the admin API."""

    def routes(self) -> Sequence[Route]:
        """Its routes. Read once: at the start of the gateway, or after `load` (`LoadsRoutes`)."""


@runtime_checkable
class LoadsRoutes(OffersRoutes, Protocol):
    """One whose routes need modules that a gateway does not load before a request needs one of them."""

    def load(self) -> None:
        """Imports what `routes` needs. Runs in a thread, so that events keep flowing."""


class ServiceRoutes:
    """The routes of all services of a gateway: those that are there from the start, and `all` of them."""

    def __init__(self, gateway: GatewayView) -> None:
        self._services: dict[str, OffersRoutes] = {
            name: s for name, s in gateway.services.items() if isinstance(s, OffersRoutes)
        }
        self._found = {n: s.routes() for n, s in self._services.items() if not isinstance(s, LoadsRoutes)}
        registry = gateway.registry
        self._foreign = any(not is_shipped(registry, plugin) for _, plugin in self._offered(registry))

    def _offered(self, registry: Registry) -> Iterator[tuple[Described, str]]:
        return (registry.services[name] for name in self._services)

    @property
    def loaded(self) -> list[Route]:
        """Those that are there."""
        return [route for name in self._services for route in self._found.get(name, ())]

    async def all(self) -> list[Route]:
        """Loads the others."""
        late = {n: s for n, s in self._services.items() if n not in self._found and isinstance(s, LoadsRoutes)}

        def load() -> None:
            for service in late.values():
                service.load()

        await to_thread.run_sync(load)
        self._found |= {n: service.routes() for n, service in late.items()}
        return self.loaded

    async def check(self, own: Sequence[Route]) -> None:
        """Raises `StartError` if a request would never reach a route because another service, or the server itself
        (its `own` routes), has one for the same path. Shipped services have no two such routes, so without others
        nothing is loaded for this."""
        if not self._foreign:
            return
        await self.all()
        before = [("the admin API itself", route) for route in own]
        for name in self._services:
            for route in self._found[name]:
                owner = f"service {name}"
                for other, earlier in before:
                    if earlier.method == route.method and earlier.match(route.path) is not None:
                        both = f"{owner} offers twice" if other == owner else f"{other} and {owner} both offer"
                        what, remedy = f"the route {route.method} {route.path}", "change the path of one"
                        raise StartError(f"{both} {what}: {remedy}, or remove its plugin")
                before.append((owner, route))
