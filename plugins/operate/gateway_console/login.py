"""Logs people in: with a token, as an operator of the config, or by a link that `tidegate console` prints."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from anyio import to_thread
from gateway_admin.guard import check_origin
from gateway_admin.service import AdminService
from gateway_api.routes import FORM, Answer, Problem, Request, Route, Text

from .models import Link
from .page import HTML, LOGIN, ROOT, action, html, own_path, render, see_other, tell

_WRONG = "This token is wrong, or has ended."
_OLD_LINK = "This link was used before, or is older than a minute. Make another one."
_WRONG_PASSWORD = "This name and password are wrong."


def login_routes(admin: AdminService) -> list[Route]:
    """The routes. `admin` is the service whose callers may log in."""
    sessions, callers = admin.callers.sessions, admin.callers

    def begun(request: Request, cookie: str, facts: dict[str, str]) -> Answer:
        headers = {"set-cookie": sessions.header(cookie, request)}
        return see_other(own_path(request.asked("next") or request.form.get("next", "")), headers, facts)

    def show(request: Request) -> Answer:
        if (code := request.asked("code")) and request.method == "GET":
            link = sessions.find_link(code)
            if link is None:
                return _form(request, 401, _OLD_LINK)
            if request.headers.get("sec-fetch-site", "").lower() == "none":
                return followed(request, code)
            # a page of another site may lead here, to have someone work in a session that its author can see into
            return _form(request, 200, "", link=(code, link.who, link.role))
        return _form(request, 200, "")

    def followed(request: Request, code: str) -> Answer:
        found = sessions.follow(code)
        if found is None:
            raise Problem(401, _OLD_LINK)
        link, cookie = found
        return begun(request, cookie, {"caller": link.who, "role": link.role})

    async def log_in(request: Request) -> Answer:
        check_origin(request)
        form, by = request.form, callers.operators
        if code := form.get("code", ""):
            return followed(request, code)
        if token := form.get("token", "").strip():
            # a key of an operator may have a header field of its own
            names, sent, wrong = by.headers if by is not None else [], f"Bearer {token}", _WRONG
        elif form.get("user"):
            pair = f"{form['user']}:{form.get('password', '')}"
            names, sent, wrong = [], f"Basic {b64encode(pair.encode()).decode()}", _WRONG_PASSWORD
        else:
            raise Problem(422, "Enter a token, or a name and a password.")
        if not sent.isprintable():
            raise Problem(422, "A token has printable characters only.")
        for name, value in (("authorization", sent), *((name, token) for name in names)):
            headers = {name: value.encode().decode("latin-1")}
            try:
                caller = await callers.caller(replace(request, method="GET", headers=headers))
                break
            except Problem as e:
                if e.status != 401:
                    raise
        else:
            raise Problem(401, wrong)
        if caller.role is None:
            raise Problem(403, f"{caller.who} has no role here: see `operators` in the config")
        if caller.end_s is not None:
            cookie = sessions.signed(caller.who, caller.role, caller.end_s or None)
        else:
            cookie = sessions.remember(headers, caller.who, caller.role, by)
        return begun(request, cookie, {"caller": caller.who, "role": caller.role})

    def refused(request: Request, problem: Problem) -> Answer:
        return _form(request, problem.status, problem.detail)

    async def log_out(request: Request) -> Answer:
        for cookie in sessions.of(request):
            await to_thread.run_sync(sessions.forget, cookie)
        return see_other(LOGIN, {"set-cookie": sessions.header("", request)})

    def link(request: Request) -> Answer:
        assert request.role is not None
        headers = _credentials(request) if request.end_s is None else {}
        code = sessions.link(request.who, request.role, headers, request.end_s or 0)
        return Answer({"path": f"{LOGIN}?code={quote(code)}"}, headers={"cache-control": "no-store"})

    def _credentials(request: Request) -> Mapping[str, str]:
        """The header fields that an operator sends or has logged in with. Raises `Problem`."""
        names = ("authorization", *(callers.operators.headers if callers.operators is not None else ()))
        kept = (sessions.recall(cookie) for cookie in sessions.of(request))
        before = next((each.headers for each in kept if each is not None), {})
        if found := {name: request.headers[name] for name in names if name in request.headers} or before:
            return found
        raise Problem(403, "send a token, or what you log in with, in a header field")

    return [
        Route("GET", LOGIN, show, "The login page", {200: Text(HTML)}, open=True, tell=tell, described=False),
        Route(
            "POST",
            LOGIN,
            log_in,
            "Log in",
            {303: None},
            open=True,
            takes=[FORM],
            action="console.login",
            tell=refused,
            described=False,
        ),
        action("/logout", log_out, "Log out", role="metrics"),
        Route(
            "POST",
            "/api/v1/console/link",
            link,
            "A link that logs in to the console once",
            {200: Link},
            role="viewer",
            action="console.link",
        ),
    ]


def _form(request: Request, status: int, message: str, link: tuple[str, str, str] | None = None) -> Answer:
    try:
        next_path = own_path(request.asked("next") or request.form.get("next", ""))
    except Problem:  # the message already reports a form that can't be read
        next_path = ROOT
    return html(render("login.html", request, title="Log in", message=message, next_path=next_path, link=link), status)
