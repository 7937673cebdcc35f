"""How pages are made: templates in a frame, the headers that keep them safe, and what a browser sees of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from gateway_api.roles import Role, may
from gateway_api.routes import FORM, Answer, Handler, Problem, Request, Route, Text
from markupsafe import Markup

from gateway_core import __version__

from . import filters
from .assets import address, assets
from .switch import ROOT as ROOT

if TYPE_CHECKING:
    from jinja2 import Environment

HTML = "text/html; charset=utf-8"
LOGIN = f"{ROOT}/login"
_MOST_PATH = 4000
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the navigation."""

    path: str
    title: str


NAVIGATION = (
    Entry("", "Overview"),
    Entry("/events", "Events"),
    Entry("/live", "Live"),
    Entry("/dead-letters", "Dead letters"),
    Entry("/event-replays", "Replays"),
    Entry("/triggers", "Triggers"),
    Entry("/playground", "Playground"),
    Entry("/tables", "Tables"),
    Entry("/catalogue", "Catalogue"),
    Entry("/config", "Config"),
)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not before a browser asks for a page

    made = Environment(
        loader=PackageLoader("gateway_console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(asset=address, root=ROOT, navigation=NAVIGATION, version=__version__)
    made.filters.update(filters.FILTERS)
    # known in every block, also in one that is made by itself
    macros = made.get_template("macros.html").module
    made.globals.update({name: macro for name, macro in vars(macros).items() if not name.startswith("_")})
    return made


def prepare() -> None:
    """Loads what all pages need, which takes too long for the event loop. Runs in a thread."""
    _environment()
    assets()


def _context(request: Request, values: Mapping[str, Any]) -> dict[str, Any]:
    def allowed(role: Role) -> bool:
        return may(request.role, role)

    return {**values, "request": request, "allowed": allowed}


def render(template: str, request: Request, **values: Any) -> str:
    """The text of a template. Besides `values` it has `request`, and `allowed(role)`: whether the reader may do what
    needs a role."""
    return _environment().get_template(template).render(_context(request, values))


def fragment(template: str, block: str, request: Request, **values: Any) -> str:
    """The text of one block of a template, as the page has it. Live pages send such parts again."""
    found = _environment().get_template(template)
    return "".join(found.blocks[block](found.new_context(_context(request, values))))


def html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer with HTML."""
    return Answer(body=text.encode(), status=status, media=HTML, headers={**_HEADERS, **(headers or {})})


def see_other(path: str, headers: Mapping[str, str] | None = None, facts: Mapping[str, Any] | None = None) -> Answer:
    """Sends the browser to another page (303)."""
    return Answer(
        body=b"", status=303, media=HTML, headers={**_HEADERS, "location": path, **(headers or {})}, facts=facts or {}
    )


def tell(request: Request, problem: Problem) -> Answer:
    """What a browser gets in place of a page: the login page for whoever is not known, else the problem. A part of a
    page that is loaded by itself gets the problem as a notice, or goes to the login page as a whole."""
    partial = "hx-request" in request.headers
    if problem.status == 401:
        to = f"{LOGIN}?next={quote(_here(request))}"
        return html("", 401, {"hx-redirect": to}) if partial else see_other(to)
    title = HTTPStatus(problem.status).phrase
    values = {"title": title, "status": problem.status, "detail": problem.detail, "problem_faults": problem.faults}
    template = "problem_notice.html" if partial else "problem.html"
    shown = {"hx-retarget": "#notices", "hx-reswap": "innerHTML"} if partial else {}
    return html(render(template, request, **values), problem.status, {**problem.headers, **shown})


def _here(request: Request) -> str:
    """The page that the reader sees: where to come back to after a login."""
    if request.method in ("GET", "HEAD") and "hx-request" not in request.headers:
        return own_path(f"{request.path}?{urlencode(request.query, doseq=True)}" if request.query else request.path)
    try:
        parts = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer", ""))
    except ValueError:
        return ROOT
    return own_path(f"{parts.path}?{parts.query}" if parts.query else parts.path)


def own_path(text: str) -> str:
    """A path of the console; its root for anything else, so that a link can't lead to another site."""
    path = text.partition("?")[0]
    own = (path == ROOT or path.startswith(f"{ROOT}/")) and not path.startswith(LOGIN) and len(text) <= _MOST_PATH
    plain = text.isascii() and text.isprintable() and "\\" not in text and "//" not in path and " " not in text
    return text if own and plain else ROOT


def page(path: str, handler: Handler, summary: str, *, role: Role = "viewer") -> Route:
    """The route of a page below `/console`."""
    return Route("GET", f"{ROOT}{path}", handler, summary, {200: Text(HTML)}, role=role, tell=tell, described=False)


def action(path: str, handler: Handler, summary: str, *, role: Role, audit: str = "") -> Route:
    """The route of a form below `/console`: it takes a POST. `audit` is the audit log's word for what it changes; a
    form that changes nothing has none."""
    return Route(
        "POST",
        f"{ROOT}{path}",
        handler,
        summary,
        {200: Text(HTML)},
        role=role,
        takes=[FORM],
        action=audit,
        tell=tell,
        described=False,
    )


def markup(text: str) -> Markup:
    """Text that is HTML already, such as a drawing."""
    return Markup(text)
