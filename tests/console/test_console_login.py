"""Who sees the console, and what a stranger, another site and an old page can do."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from gateway_console.assets import FOLDER
from playwright.sync_api import Browser, expect

from tests import web
from tests.console.lab import OPENED, Lab, opened

pytestmark = pytest.mark.spec("CO-01")


def http(found: Lab) -> httpx.Client:
    return web.client(base_url=found.gateway.admin_url, headers=OPENED, verify=False, timeout=30)


@contextmanager
def session(found: Lab, role: str = "admin") -> Iterator[httpx.Client]:
    """A client with the cookie of someone who has this role."""
    with http(found) as client:
        answer = client.post("/console/login", data={"token": found.token(role)})
        assert answer.status_code == 303, answer.text
        yield client


def csrf(client: httpx.Client) -> str:
    found = re.search(r'X-CSRF-Token": "(\w+)"', client.get("/console").text)
    assert found
    return found[1]


def test_a_stranger_gets_the_login_page(shared: Lab) -> None:
    with http(shared) as client:
        answer = client.get("/console")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/login?next=/console")
        part = client.get("/console/live/overview", headers={"hx-request": "true"})
        assert part.status_code == 401
        assert client.get("/").headers["location"] == "/console"


def test_a_token_logs_in_and_out(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared, log_in=False) as page:
        page.goto(shared.url)
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").first.click()
        expect(page.get_by_role("alert")).to_contain_text("wrong")
        page.get_by_label("Token").fill(shared.gateway.admin_headers["authorization"].partition(" ")[2])
        page.get_by_role("button", name="Log in").first.click()
        page.wait_for_url("**/console")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/console/login")
        page.goto(shared.url)
        expect(page.get_by_label("Token")).to_be_visible()


def test_a_link_logs_in_once(shared: Lab) -> None:
    path = shared.link().removeprefix(shared.gateway.admin_url)
    with http(shared) as client:
        answer = client.get(path)
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert client.get("/console").status_code == 200
    with http(shared) as another:
        assert another.get(path).status_code == 401
        assert another.get(path[:-1] + ("0" if path[-1] != "0" else "1")).status_code == 401


@pytest.mark.parametrize("cookie", ["x", "e30=.00", "a.b.c", "é"])
def test_a_cookie_that_is_none_of_its_own_is_nobody(shared: Lab, cookie: str) -> None:
    with session(shared) as client:
        (name,) = client.cookies
    with http(shared) as stranger:
        headers = [(b"cookie", f"{name}={cookie}".encode())]
        assert stranger.get("/console", headers=headers).status_code == 303
        assert stranger.get("/status", headers=headers).status_code == 401


def test_a_change_needs_the_csrf_token(shared: Lab) -> None:
    with session(shared) as client:
        pause = "/api/v1/triggers/orders/pause"
        assert client.post(pause).status_code == 403
        assert client.post(pause, headers={"x-csrf-token": "0" * 32}).status_code == 403
        foreign = {"x-csrf-token": csrf(client), "origin": "http://elsewhere.example"}
        assert client.post(pause, headers=foreign).status_code == 403
        assert client.post("/api/v1/triggers/orders/resume", headers={"x-csrf-token": csrf(client)}).status_code == 200


def test_a_viewer_changes_nothing(shared: Lab) -> None:
    with session(shared, "viewer") as client:
        token = {"x-csrf-token": csrf(client)}
        assert client.post("/api/v1/triggers/orders/pause", headers=token).status_code == 403
        assert client.post("/api/v1/reload", headers=token).status_code == 403
    with session(shared, "metrics") as client:
        assert client.get("/console").status_code == 403


@pytest.mark.parametrize(
    "next_path", ["//evil.example/", "https://evil.example/", "/console/../x", "/console\\@evil", "/\tconsole"]
)
def test_a_login_leads_to_no_other_site(shared: Lab, next_path: str) -> None:
    with http(shared) as client:
        answer = client.post("/console/login", data={"token": shared.token("viewer"), "next": next_path})
        assert answer.status_code == 303
        assert answer.headers["location"] in ("/console", "/console/../x")


def test_another_site_can_not_log_a_browser_in(shared: Lab) -> None:
    with http(shared) as client:
        form = {"token": shared.token("viewer")}
        answer = client.post("/console/login", data=form, headers={"origin": "http://elsewhere.example"})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_pages_run_no_script_but_their_own(shared: Lab) -> None:
    with session(shared) as client:
        headers = client.get("/console").headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"


def test_what_pages_load_is_what_was_published() -> None:
    told = dict(re.findall(r"\| `([\w.-]+)` \|.*`([0-9a-f]{64})` \|", (FOLDER / "README.md").read_text()))
    assert told.keys() == {"htmx.js", "htmx-sse.js"}
    for name, digest in told.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest


def test_the_first_page_is_small(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared, log_in=False) as page:
        sizes: list[int] = []
        page.on("requestfinished", lambda request: sizes.append(_size(request)))
        page.goto(shared.link())
        expect(page.get_by_role("status")).to_have_text("Live")
        assert 5_000 < sum(sizes) < 100_000


def _size(request: object) -> int:
    sizes = request.sizes()  # type: ignore[attr-defined]
    return int(sizes["responseBodySize"]) + int(sizes["responseHeadersSize"])
