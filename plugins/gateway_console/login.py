"""Logs people in: with a token, as an operator of the config, or by a link that `tidegate console` prints."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from urllib.parse import quote

from anyio import to_thread
from gateway_admin.guard import check_origin
from gateway_admin.routes import FORM, Answer, Problem, Request, Route, Text
from gateway_admin.service import AdminService

from .models import Link
from .page import HTML, LOGIN, action, html, own_path, render, see_other, tell

_WRONG = "This token is wrong, or has ended."
_WRONG_PASSWORD = "This name and password are wrong."


def login_routes(admin: AdminService) -> list[Route]:
    """The routes. `admin` is the service whose callers may log in."""
    sessions, callers = admin.callers.sessions, admin.callers

    def begun(request: Request, cookie: str, facts: dict[str, str]) -> Answer:
        # behind a proxy only the browser knows that it speaks TLS
        secure = request.secure or request.headers.get("origin", "").startswith("https://")
        headers = {"set-cookie": sessions.header(cookie, secure=secure)}
        return see_other(own_path(request.asked("next") or request.form.get("next", "")), headers, facts)

    def show(request: Request) -> Answer:
        if (code := request.asked("code")) and request.method == "GET":
            cookie = sessions.follow(code)
            if cookie is not None:
                return begun(request, cookie, {})
            return _form(request, 401, "This link was used before, or is older than a minute. Make another one.")
        return _form(request, 200, "")

    async def log_in(request: Request) -> Answer:
        check_origin(request)
        form = request.form
        if form.get("token", "").strip():
            sent = f"Bearer {form['token'].strip()}"
        elif form.get("user"):
            pair = f"{form['user']}:{form.get('password', '')}"
            sent = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            raise Problem(422, "Enter a token, or a name and a password.")
        if not sent.isprintable():
            raise Problem(422, "A token has printable characters only.")
        headers = {"authorization": sent.encode().decode("latin-1")}
        by = callers.operators
        try:
            caller = await callers.caller(replace(request, method="GET", headers=headers))
        except Problem as e:
            if e.status != 401:
                raise
            raise Problem(401, _WRONG if sent.startswith("Bearer") else _WRONG_PASSWORD) from e
        if caller.role is None:
            raise Problem(403, f"{caller.who} has no role here: see `operators` in the config")
        if caller.end_s is not None:
            cookie = sessions.signed(caller.who, caller.role, caller.end_s or None)
        else:
            cookie = sessions.remember(headers["authorization"], caller.who, caller.role, by)
        return begun(request, cookie, {"caller": caller.who, "role": caller.role})

    def refused(request: Request, problem: Problem) -> Answer:
        return _form(request, problem.status, problem.detail)

    async def log_out(request: Request) -> Answer:
        for cookie in sessions.of(request.headers.get("cookie", "")):
            await to_thread.run_sync(sessions.forget, cookie)
        return see_other(LOGIN, {"set-cookie": sessions.header("", secure=request.secure)})

    def link(request: Request) -> Answer:
        assert request.role is not None
        authorization = _authorization(request) if request.end_s is None else ""
        code = sessions.link(request.who, request.role, authorization, request.end_s or 0)
        return Answer({"path": f"{LOGIN}?code={quote(code)}"}, headers={"cache-control": "no-store"})

    def _authorization(request: Request) -> str:
        """What an operator sends or has logged in with. Raises `Problem`."""
        if sent := request.headers.get("authorization"):
            return sent
        kept = (sessions.recall(cookie) for cookie in sessions.of(request.headers.get("cookie", "")))
        found = next((each.authorization for each in kept if each is not None), "")
        if not found:
            raise Problem(403, "send a token, or what you log in with, in `Authorization`")
        return found

    return [
        Route("GET", LOGIN, show, "The login page", {200: Text(HTML)}, open=True, tell=tell, described=False),
        Route(
            *("POST", LOGIN, log_in, "Log in", {303: None}),
            open=True,
            takes=[FORM],
            action="console.login",
            tell=refused,
            described=False,
        ),
        action("/logout", log_out, "Log out", role="metrics"),
        Route(
            *("POST", "/api/v1/console/link", link, "A link that logs in to the console once", {200: Link}),
            role="viewer",
            action="console.link",
        ),
    ]


def _form(request: Request, status: int, message: str) -> Answer:
    next_path = own_path(request.asked("next") or request.form.get("next", ""))
    return html(render("login.html", request, title="Log in", message=message, next_path=next_path), status)
