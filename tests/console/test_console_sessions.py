"""Sessions on a bad day: credentials that end, logouts, links, other servers of the host, and too many streams."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from gateway_admin.ended_sessions import MOST, EndedSessions
from gateway_admin.server import MOST_STREAMS
from gateway_admin.sessions import Sessions
from gateway_api.routes import Request
from gateway_api.tokens import Tokens, derived, read_token, write_token
from gateway_auth.keys import add_key, remove_keys
from gateway_auth.passwords import hash_of, set_password
from playwright.sync_api import Browser, expect

from tests import web
from tests.console.axe import violations
from tests.console.lab import CONFIG, OPENED, Lab, lab, opened

pytestmark = pytest.mark.spec("CO-95")
OPERATORS = """
console:
  hide: {{attributes: [card], below: operator}}
operators:
  people: {{authenticate: [{{basic: {{file: users.json}}}}], role: operator}}
  machines: {{authenticate: [{{api_key: {{file: keys.json, bearer: true}}}}], role: viewer}}
  scripts: {{authenticate: [{{api_key: {{file: scripts.json, header: x-script}}}}], role: operator}}
"""


SCRIPT: dict[str, str] = {}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    """A gateway with operators: anna has a password, and keys can be made in `keys.json`."""
    folder = tmp_path_factory.mktemp("guarded")
    set_password(folder / "users.json", "anna", hash_of(b"secret of anna"))
    add_key(folder / "keys.json", "first")
    SCRIPT["key"] = add_key(folder / "scripts.json", "script")[1]
    with lab(folder, CONFIG + OPERATORS, ("--admin-hosts", "https://gateway.example")) as found:
        yield found


@contextmanager
def session(found: Lab, **form: str) -> Iterator[httpx.Client]:
    with web.client(base_url=found.gateway.admin_url, headers=OPENED, verify=False, timeout=30) as client:
        if form:
            answer = client.post("/console/login", data=form)
            assert answer.status_code == 303, answer.text
        yield client


def csrf(client: httpx.Client) -> dict[str, str]:
    found = re.search(r'X-CSRF-Token": "(\w+)"', client.get("/console").text)
    assert found
    return {"x-csrf-token": found[1]}


def link(client: httpx.Client) -> str:
    return str(client.post("/api/v1/console/link", headers=csrf(client)).raise_for_status().json()["path"])


def test_a_password_logs_in_with_its_role(browser: Browser, guarded: Lab) -> None:
    with opened(browser, guarded, log_in=False) as page:
        page.goto(f"{guarded.url}/triggers/orders")
        page.get_by_text("With a name and a password").click()
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").nth(1).click()
        expect(page.get_by_role("alert")).to_have_text("This name and password are wrong.")
        page.get_by_text("With a name and a password").click()
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Password").fill("secret of anna")
        page.get_by_role("button", name="Log in").nth(1).click()
        expect(page.get_by_role("heading", name="orders")).to_be_visible()
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_text("The trigger was paused.")).to_be_visible()
        page.get_by_role("button", name="Resume", exact=True).click()
        expect(page.get_by_text("The trigger was resumed.")).to_be_visible()


@pytest.mark.area(name="console")
def test_a_link_of_an_operator_begins_a_session_that_ends_with_the_credentials(guarded: Lab) -> None:
    file = next(parent / "keys.json" for parent in guarded.gateway.data_dir.parents if (parent / "keys.json").exists())
    key, text = add_key(file, "gone")
    guarded.gateway.wait_until(lambda: _status(guarded, text) == 200, what="the key to be known")
    with session(guarded, token=text) as first, session(guarded) as second:
        assert second.get(link(first)).status_code == 303
        path = link(second)
        assert second.get("/console").status_code == 200
        remove_keys(file, [key.id])
        guarded.gateway.wait_until(lambda: _status(guarded, text) == 401, what="the key to be unknown")
        with session(guarded) as third:
            third.get(path)
            assert third.get("/console").status_code == 303
        guarded.gateway.wait_until(lambda: second.get("/console").status_code == 303, what="the session to end")
        assert first.get("/console").status_code == 303


def _status(found: Lab, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return web.get(f"{found.gateway.admin_url}/status", headers=headers, verify=False, timeout=30).status_code


def test_a_link_of_a_token_that_ends_makes_no_longer_session(guarded: Lab) -> None:
    until_s = int(time.time()) + 2
    token = derived(read_token(guarded.gateway.data_dir), "viewer", "short", until_s)
    answer = web.post(
        f"{guarded.gateway.admin_url}/api/v1/console/link",
        headers={"authorization": f"Bearer {token}"},
        verify=False,
        timeout=30,
    )
    path = answer.raise_for_status().json()["path"]
    with session(guarded) as client:
        client.get(path)
        guarded.gateway.wait_until(lambda: client.get("/console").status_code == 303, what="the session to end")


@pytest.mark.usefixtures("processes")
def test_who_logs_out_is_out_also_with_a_copy_of_the_cookie_and_after_a_restart(tmp_path: Path) -> None:
    with lab(tmp_path) as found, ExitStack() as sessions:
        client, other = (sessions.enter_context(session(found, token=found.token("viewer"))) for _ in range(2))
        headers = {"cookie": f"{next(iter(client.cookies))}={next(iter(client.cookies.values()))}"}
        address = f"{found.gateway.admin_url}/status"
        assert web.get(address, headers=headers, verify=False).status_code == 200
        path = found.link().removeprefix(found.gateway.admin_url)
        assert client.post("/console/logout", headers=csrf(client)).status_code == 303
        assert web.get(address, headers=headers, verify=False).status_code == 401
        found.gateway.kill()
        found.gateway.start()
        assert web.get(address, headers=headers, verify=False).status_code == 401
        assert other.get("/console").status_code == 200
        assert other.get(path).status_code == 401, "a link does not outlive a restart"
        write_token(found.gateway.data_dir)
        assert other.get("/status").status_code == 401


def test_ended_sessions_are_bounded_and_survive_a_broken_file(tmp_path: Path) -> None:
    file, now = tmp_path / "ended", [0.0]
    ended = EndedSessions(file, lambda: now[0])
    for i in range(3):
        ended.add(f"soon{i}", 10)
    ended._ends = {f"s{i}": 100 + i for i in range(MOST)}
    ended.add("late", 5000)
    assert "s0" not in ended
    assert "late" in EndedSessions(file, lambda: now[0])
    now[0] = 4000
    ended.add("later", 6000)
    assert set(json.loads(file.read_text())) == {"late", "later"}
    for broken in (b"[", b"[1]", b'{"a": null}', b"\xff"):
        file.write_bytes(broken)
        assert "late" not in EndedSessions(file, lambda: now[0])


def test_a_cookie_of_another_server_keeps_nobody_out(guarded: Lab, tmp_path: Path) -> None:
    with session(guarded, token=guarded.token("viewer")) as client:
        ((name, cookie),) = client.cookies.items()
        headers = {"cookie": f"{name}=planted; {name}={cookie}"}
        assert web.get(f"{guarded.gateway.admin_url}/status", headers=headers, verify=False).status_code == 200
    sessions = Sessions(Tokens(tmp_path))
    request = Request("GET", "/", {}, {"host": "gateway.example"})
    cookies = "; ".join(f"{sessions.cookie(request)}=x" for _ in range(5000))
    assert 1 < len(sessions.of(replace(request, headers={**request.headers, "cookie": cookies}))) < 10


def test_a_login_leads_back_to_the_page_and_what_it_asks_for(guarded: Lab) -> None:
    with session(guarded) as client:
        there = client.get("/console/triggers?search=a%20b").headers["location"]
        assert there == "/console/login?next=/console/triggers%3Fsearch%3Da%2Bb"
        with web.client(base_url=guarded.gateway.admin_url, verify=False, timeout=30) as other:
            answer = other.post(there, data={"token": guarded.token("viewer")})
            assert answer.headers["location"] == "/console/triggers?search=a+b"
        part = {"hx-request": "true", "hx-current-url": f"{guarded.url}/triggers/orders?changed=paused"}
        form = {"content-type": "application/x-www-form-urlencoded"}
        gone = client.post("/console/triggers/orders/try", headers={**part, **form})
        assert (gone.status_code, gone.headers["hx-redirect"]) == (
            401,
            "/console/login?next=/console/triggers/orders%3Fchanged%3Dpaused",
        )
        plain = client.post("/console/triggers/orders/pause", headers={**form, "referer": f"{guarded.url}/triggers"})
        assert plain.headers["location"] == "/console/login?next=/console/triggers"
        for referer in ("http://evil.example//x", "http://[", f"{guarded.url}/login?code=1", "javascript:x"):
            answer = client.post("/console/triggers/orders/pause", headers={**form, "referer": referer})
            assert answer.headers["location"] == "/console/login?next=/console"


def test_a_key_with_a_header_of_its_own_logs_in_and_makes_links(guarded: Lab) -> None:
    with session(guarded, token=SCRIPT["key"]) as client, session(guarded) as other, session(guarded) as third:
        assert 'title="operator"' in client.get("/console").text
        assert other.get(link(client)).status_code == 303
        assert 'title="operator"' in other.get("/console").text
        made = third.post("/api/v1/console/link", headers={"x-script": SCRIPT["key"]}).raise_for_status().json()
        assert third.get(made["path"]).status_code == 303
        assert third.post("/console/login", data={"token": SCRIPT["key"][:-1] + "!"}).status_code == 401


def test_no_page_of_another_site_begins_a_session_with_its_link(browser: Browser, guarded: Lab) -> None:
    with session(guarded, token=guarded.token("viewer")) as maker:
        path = link(maker)
        for site in ("cross-site", "same-site", "same-origin", ""):
            answer = web.get(f"{guarded.gateway.admin_url}{path}", headers={"sec-fetch-site": site}, timeout=30)
            assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
        with opened(browser, guarded, log_in=False) as page:
            page.route("http://elsewhere.example/", lambda route: route.fulfill(body=f"<a href={answer.url}>x</a>"))
            page.goto("http://elsewhere.example/")
            page.get_by_role("link").click()
            expect(page.get_by_text("begins a session of token a-viewer with the role viewer")).to_be_visible()
            assert violations(page) == []
            page.get_by_role("button", name="Continue").click()
            expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert maker.get(path).status_code == 401, "it logs in once"
        form = {"code": path.partition("=")[2]}
        assert maker.post("/console/login", data=form).status_code == 401


def test_a_hidden_attribute_can_not_be_guessed_by_an_expression(guarded: Lab) -> None:
    with session(guarded, token=guarded.token("viewer")) as viewer, session(guarded, token=SCRIPT["key"]) as operator:
        for text in ("card=4*", "EXISTS card", "LEFT(Card, 1) = '4'", "type = 'a' AND (card LIKE '4%')"):
            refused = viewer.get("/console/live/tap", params={"filter": text})
            assert (refused.status_code, "hidden from you" in refused.text) == (422, True)
            assert "hidden from you" in viewer.get("/console/live/check", params={"filter": text}).text
            assert "hidden from you" not in operator.get("/console/live/check", params={"filter": text}).text
        assert "hidden from you" not in viewer.get("/console/live/check", params={"filter": "discard=1"}).text


def test_cookies_are_of_a_port_and_of_tls_where_the_config_says_so(guarded: Lab) -> None:
    port = urlsplit(guarded.url).port
    form = {"token": guarded.token("viewer")}
    with session(guarded) as client:
        plain = client.post("/console/login", data=form, headers={"x-forwarded-proto": "https"}).headers["set-cookie"]
        assert plain.partition("=")[0].endswith(f"_{port}")
        assert "Secure" not in plain
        proxied = {"host": "gateway.example", "origin": "https://gateway.example"}
        cookie = client.post("/console/login", data=form, headers=proxied).headers["set-cookie"]
        assert cookie.startswith("__Host-tidegate_")
        assert "; Secure" in cookie
        stripped = {**proxied, "origin": "http://gateway.example"}
        assert client.post("/console/login", data=form, headers=stripped).status_code == 403
        name, _, value = cookie.partition(";")[0].partition("=")
        for told, status in ((f"{name}={value}", 200), (f"{name.removeprefix('__Host-')}={value}", 401)):
            headers = {"host": "gateway.example", "cookie": told}
            assert web.get(f"{guarded.gateway.admin_url}/status", headers=headers, timeout=30).status_code == status


def test_a_cookie_is_secure_when_the_browser_speaks_tls_with_a_proxy(guarded: Lab) -> None:
    host = urlsplit(guarded.url).netloc
    with session(guarded) as client:
        form = {"token": guarded.token("viewer")}
        answer = client.post("/console/login", data=form, headers={"origin": f"https://{host}"})
        assert "; Secure" in answer.headers["set-cookie"]
        assert client.post("/console/login", data=form, headers={"origin": "null"}).status_code == 403


def test_a_path_that_is_no_page_is_told_as_a_page(guarded: Lab) -> None:
    with session(guarded, token=guarded.token("viewer")) as client:
        answer = client.get("/console/nothing<b>")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "nothing&lt;b&gt;" in answer.text or "nothing%3Cb%3E" in answer.text
        assert client.get("/api/v1/nothing").headers["content-type"] == "application/problem+json"
        for path in ("/status", "/api/v1/nothing", "/console", "/console/live/check?filter=a"):
            assert client.get(path).headers["x-content-type-options"] == "nosniff"
        paths = client.get("/openapi.json").json()["paths"]
        assert [path for path in paths if path.startswith("/console")] == []
    with session(guarded) as stranger:
        assert stranger.get("/console/nothing").headers["location"].startswith("/console/login")
        assert stranger.head(guarded.link().removeprefix(guarded.gateway.admin_url)).status_code == 200


@pytest.mark.parametrize("target", ["http://evil.example/console", "//evil.example/console", "/console//evil.example"])
def test_a_request_for_another_host_is_sent_nowhere(guarded: Lab, target: str) -> None:
    parts = urlsplit(guarded.url)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30) as raw:
        raw.sendall(f"GET {target} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b"")).decode("latin-1").lower()
    assert "location: http" not in answer
    assert "location: //" not in answer


def test_wrong_logins_are_recorded_at_a_bounded_rate(guarded: Lab) -> None:
    file = guarded.gateway.data_dir / "audit/audit.jsonl"
    before = len(file.read_text().splitlines()) if file.exists() else 0
    with session(guarded) as client:
        for i in range(300):
            assert client.post("/console/login", data={"token": f"wrong{i}"}).status_code == 401
    lines = file.read_text().splitlines()[before:]
    assert 1 <= sum('"console.login"' in line for line in lines) <= 150
    assert "wrong1" not in "".join(lines)
    assert "wrong1" not in guarded.gateway.log()


@pytest.mark.usefixtures("processes")
def test_open_streams_leave_room_for_requests_and_for_a_stop(tmp_path: Path) -> None:
    with lab(tmp_path) as found, ExitStack() as open_streams:
        parts = urlsplit(found.url)
        token = found.gateway.admin_headers["authorization"]
        ask = f"GET /console/live/overview HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: {token}\r\n\r\n".encode()
        for _ in range(MOST_STREAMS):
            raw = open_streams.enter_context(
                socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=60)
            )
            raw.sendall(ask)
            assert raw.recv(12) == b"HTTP/1.1 200"
        refused = web.get(f"{found.url}/live/overview", headers={"authorization": token}, verify=False, timeout=60)
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        assert web.get(f"{found.gateway.admin_url}/health/live", verify=False, timeout=60).status_code == 200
        assert found.gateway.status()["ready"]
        assert found.gateway.stop() == 0
