"""What a browser or a stranger sends to the console and the admin API: forms, queries, cookies, tokens and host names.
All is read, or a `Problem` with a status below 500; nobody is let in, and nobody is sent elsewhere.

An input is a byte (modulo 5: a login form, a search, a cookie, a token, a `Host`), then that.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gateway_admin.callers import bearer
from gateway_admin.guard import Guard, check_origin
from gateway_admin.sessions import Sessions
from gateway_api.routes import FORM, Answer, Problem, Request
from gateway_api.tokens import Tokens
from gateway_console.config import HideConfig
from gateway_console.event_search import asked
from gateway_console.login import login_routes
from gateway_console.page import LOGIN, ROOT, own_path, tell
from gateway_console.timeline import nanoseconds

NOW = 1_700_000_000
_FOLDER = tempfile.TemporaryDirectory()
_TOKENS = Tokens(Path(_FOLDER.name), now_s=lambda: NOW)
_TOKENS.refresh()
_SESSIONS = Sessions(_TOKENS, lambda: NOW)
_COOKIE = _SESSIONS.signed("somebody", "viewer")
_LOOP = asyncio.new_event_loop()


class Callers:
    """Knows nobody."""

    sessions = _SESSIONS
    operators = None

    async def caller(self, request: Request) -> Any:
        sent = request.headers["authorization"]
        assert sent.partition(" ")[0] in ("Bearer", "Basic")
        assert "\n" not in sent
        assert "\r" not in sent
        if (given := bearer(request)) is not None:
            assert _TOKENS.holder(given) is None, "a token that nobody made"
        raise Problem(401, "nobody")


_ADMIN: Any = SimpleNamespace(callers=Callers())
_ROUTES = {(route.method, route.path): route for route in login_routes(_ADMIN)}


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    kind, text = (data[0] % 5, data[1:]) if data else (0, b"")
    [_check_login, _check_search, _check_cookie, _check_token, _check_host][kind](text)


def _answer(request: Request) -> Answer:
    """What the console answers, as its server does."""
    route = _ROUTES[request.method, request.path]

    async def answered() -> Answer:
        found = route.handler(request)
        return await found if inspect.isawaitable(found) else found

    try:
        return _LOOP.run_until_complete(answered())
    except Problem as e:
        problem = e
    assert 400 <= problem.status < 500
    assert route.tell is not None
    return route.tell(request, problem)


def _check_login(body: bytes) -> None:
    answer = _answer(Request("POST", LOGIN, headers={"content-type": FORM}, body=body))
    assert answer.status in (401, 422, 400)
    assert "set-cookie" not in answer.headers
    assert b"<script>" not in answer.encoded().lower()
    query = body.decode("latin-1").replace("#", "")
    try:
        fields = parse_qs(query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return
    answer = _answer(Request("GET", LOGIN, query=fields))
    assert answer.status in (200, 401)
    assert b"<script>" not in answer.encoded().lower()
    for values in fields.values():
        for value in values:
            path = own_path(value)
            assert urlsplit(path).netloc == ""
            assert path == ROOT or path.startswith((ROOT + "/", ROOT + "?"))
            path.encode("ascii")
    told = tell(Request("GET", "/console/x", query=fields), Problem(401, "nobody"))
    told.headers["location"].encode("ascii")


def _check_search(query: bytes) -> None:
    try:
        fields = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=100)
        found = asked(Request("GET", ROOT, query=fields), HideConfig(attributes=["source"]))
    except ValueError:  # the server's: too many fields
        return
    except Problem as e:
        if e.status != 422:
            raise
        return
    if not found.faults:
        again = asked(Request("GET", ROOT, query=parse_qs(found.query())), HideConfig())
        assert (again.wanted, again.rest) == (found.wanted, found.rest), "its own address asks for something else"
    nanoseconds(found.since)


def _check_cookie(text: bytes) -> None:
    written = text.decode("latin-1").replace("$", _COOKIE)
    name = _SESSIONS.cookie(Request("GET", ROOT))
    for cookie in [written, *_SESSIONS.of(Request("GET", ROOT, headers={"cookie": f"{name}={written}"}))]:
        found = _SESSIONS.read(cookie)
        assert found is None or cookie == _COOKIE, "a forged cookie is taken"
        assert _SESSIONS.recall(cookie) is None
        assert _SESSIONS.follow(cookie) is None


def _check_token(text: bytes) -> None:
    request = Request("GET", "/", headers={"authorization": text.decode("latin-1")})
    if (given := bearer(request)) is not None:
        assert _TOKENS.holder(given) is None, "a token that nobody made"


def _check_host(text: bytes) -> None:
    host, _, origin = text.decode("latin-1").partition("\n")
    request = Request("POST", "/", headers={"host": host, "origin": origin})
    for bound in ("127.0.0.1", "0.0.0.0"):
        try:
            Guard(bound, Callers(), ["own.example"]).check_host(request)
            known = True
        except Problem as e:
            if e.status != 403 or not e.detail.isprintable():
                raise
            known = False
        name = host.lower()
        if known and bound == "127.0.0.1":
            assert any(own in name for own in ("localhost", "127.0.0.1", "::1", "own.example")), "a foreign name"
    try:
        check_origin(request)
    except Problem as e:
        if e.status != 403:
            raise
        return
    assert origin.lower().partition("://")[2] == host.lower(), "a page of another origin makes changes"


_REST = b"rest=%7B%22b%22%3A%20%7B%220%22%3A%205%7D%7D"
SEEDS = [
    b"\0token=abc&next=%2Fconsole%2Fevents%3Fid%3D1",
    b"\0user=a&password=%E2%82%AC%00&next=//evil.example",
    b"\0token=viewer.x.0.mac&next=/console/../x",
    b"\0code=abc&next=https://evil.example/console",
    b"\1id=1&source=/s&type=t*&since=2026-01-31T12:00&until=2026-02-01&broker=b",
    b"\1id=a*&" + _REST + b"&searched=5&steps=2",
    b"\1since=2026-01-31T12:00:00.5%2B14:00&position=5",
    b"\1rest=null&searched=-1",
    b"\1rest=[1]",
    b"\2$",
    b"\2x; $; tidegate_0=1",
    b"\2e30=.mac",
    b"\3Bearer admin.a.0.mac",
    b"\3bearer viewer.a.9999999999.AAAA",
    b"\3Basic YTpi",
    b"\4localhost:8080\nhttp://localhost:8080",
    b"\4[::1]:80\nhttps://[::1]:80",
    b"\4evil.example\nnull",
    b"\4own.example.:80\nhttp://own.example.:80",
    b"\010.0.0.1\nhttp://evil",
]
WORDS = [
    *(b"token=", b"user=", b"password=", b"next=", b"code=", b"id=", b"source=", b"since=", b"until=", b"rest=", b"&"),
    *(b"position=", b"searched=", b"steps=", b"broker=", b"/console", b"//", b"%2F", b"\\", b"%00", b"%0d%0a", b"%22"),
    *(b"<script>", b"'\"><", b"javascript:", b"2026-01-31T12:00", b"0001-01-01", b"9999-12-31T23:59:59-23:59", b"Z"),
    *(b"Bearer ", b"admin.", b"viewer.x.0.", b"localhost", b"127.0.0.1", b"[::1]", b":80", b"$", b"%7B", b"%7D", b"."),
    *(b"own.example", b"http://", b"https://", b"\n", b"null", b"%F0%9F%98%80", b"%ED%A0%80", b"\xff", b"*", b"NaN"),
]  # fmt: skip
