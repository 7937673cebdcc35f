"""What live pages do to their readers: keyboard, pointer, screen reader, no script, hidden tabs, and things that go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from gateway_console.filters import short
from gateway_inspect.tap.choice import Choice
from gateway_inspect.tap.tap import MOST_BYTES, Tap
from playwright.sync_api import Browser, Page, expect

from gateway_core.contract.clock import SystemClock
from tests import web
from tests.console.lab import Lab, lab, opened

pytestmark = pytest.mark.spec("CO-96")
LIVE = ["", "/triggers", "/triggers/orders", "/live"]
WATCH = """
window.told = 0; window.shift = 0; window.sources = [];
document.addEventListener("htmx:sseBeforeMessage", () => { window.told += 1; });
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({type: "layout-shift", buffered: true});
const Real = EventSource;
window.EventSource = class extends Real { constructor(url) { super(url); window.sources.push(this); } };
window.seen = (hidden) => {
  Object.defineProperty(document, "hidden", {get: () => hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
};
"""


@contextmanager
def watched(browser: Browser, found: Lab, path: str) -> Iterator[Page]:
    """A page that counts what its stream tells, and how much it shifts."""
    with opened(browser, found) as page:
        page.add_init_script(WATCH)
        page.goto(f"{found.url}{path}")
        expect(page.locator("#connection")).to_have_text("Live")
        yield page


def more(page: Page, found: Lab, times: int = 2) -> None:
    """Sends events until the stream has told of some."""
    before = page.evaluate("window.told")
    for i in range(600):
        found.send({"id": f"more{i}"})
        if page.evaluate("window.told") >= before + times:
            return
        page.wait_for_timeout(100)
    raise AssertionError("the stream tells nothing")


def until(page: Page, expression: str) -> None:
    """Waits. `wait_for_function` needs what the page's policy forbids."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never: {expression}")


@pytest.mark.area(name="console")
def test_the_focus_stays_where_it_is(browser: Browser, shared: Lab) -> None:
    with watched(browser, shared, "/triggers") as page:
        page.get_by_role("link", name="orders", exact=True).focus()
        page.evaluate("window.before = document.activeElement")
        for _ in range(30):
            more(page, shared)
            if not page.evaluate("window.before.isConnected"):
                break
        assert not page.evaluate("window.before.isConnected"), "the rows were never renewed"
        assert page.evaluate("document.activeElement.textContent") == "orders"
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()


@pytest.mark.area(name="console")
def test_a_click_that_takes_its_time_counts(browser: Browser, shared: Lab) -> None:
    with watched(browser, shared, "/triggers") as page:
        page.get_by_role("link", name="orders", exact=True).hover()
        page.mouse.down()
        more(page, shared, 3)
        page.mouse.up()
        expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()


@pytest.mark.area(name="console")
def test_selected_text_stays_selected(browser: Browser, shared: Lab) -> None:
    with watched(browser, shared, "/triggers") as page:
        page.get_by_role("link", name="orders", exact=True).evaluate("(link) => getSelection().selectAllChildren(link)")
        more(page, shared, 3)
        # in one step: once nothing is selected, the next event changes the table
        selected = page.evaluate(
            "() => { const text = getSelection().toString(); getSelection().removeAllRanges();"
            " window.before = document.querySelector('tbody').textContent; return text; }"
        )
        assert selected == "orders"
        until(page, "document.querySelector('tbody').textContent !== window.before")


@pytest.mark.area(name="console")
def test_a_hidden_page_has_no_stream(browser: Browser, shared: Lab) -> None:
    with watched(browser, shared, "/triggers") as page:
        page.evaluate("window.seen(true)")
        assert page.evaluate("window.sources.every((each) => each.readyState === EventSource.CLOSED)")
        page.evaluate("window.seen(false)")
        until(page, "window.sources.at(-1).readyState === EventSource.OPEN")
        assert page.evaluate("window.sources.length") == 2
        more(page, shared)
    with watched(browser, shared, "/live") as page:
        page.evaluate("window.seen(true)")
        assert page.evaluate("window.sources.length") == 1
        assert page.evaluate("window.sources[0].readyState") == 1, "the live page misses nothing"


@pytest.mark.area(name="console")
def test_nothing_moves_and_nothing_is_announced_each_second(browser: Browser, shared: Lab) -> None:
    columns = "[...document.querySelectorAll('main > *, thead th')].map((each) => each.getBoundingClientRect().x)"
    with ExitStack() as opening:
        pages = {path: opening.enter_context(watched(browser, shared, path)) for path in LIVE}
        before = pages["/live"].evaluate(columns)
        for page in pages.values():
            more(page, shared, 3)
        assert pages["/live"].evaluate(columns) == before  # rows make room for new ones, and nothing else moves
        for path, page in pages.items():
            if path != "/live":
                assert page.evaluate("window.shift") < 0.02, path
            parts = page.locator("[sse-swap]")
            assert parts.count() >= 1
            announced = "(found) => found.every((each) => !each.closest('[aria-live], [role=status]'))"
            assert parts.evaluate_all(announced), path


@pytest.mark.area(name="console")
def test_a_page_whose_trigger_is_deleted_says_so(browser: Browser, tmp_path: Path) -> None:
    with lab(tmp_path) as found:
        made = {"broker": "default", "filters": [{"exact": {"type": "none"}}], "subscriber": found.good.url}
        one = f"{found.gateway.admin_url}/api/v1/triggers/short-lived"
        headers = found.gateway.admin_headers
        web.put(one, json=made, headers=headers, verify=False, timeout=60).raise_for_status()
        with watched(browser, found, "/triggers/short-lived") as page:
            web.delete(one, headers=headers, verify=False, timeout=60).raise_for_status()
            expect(page.locator("#connection")).to_contain_text("short-lived")
            assert page.evaluate("window.sources.every((each) => each.readyState === EventSource.CLOSED)")
        assert "Traceback" not in found.gateway.log()


def test_without_script_pages_can_be_read(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared, log_in=False, java_script_enabled=False) as page:
        page.goto(f"{shared.url}/triggers")
        page.get_by_label("Token").fill(shared.token("operator"))
        page.get_by_role("button", name="Log in").first.click()
        expect(page.get_by_text("Without JavaScript")).to_be_visible()
        page.get_by_role("link", name="orders", exact=True).click()
        expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()


def test_the_frame_works_with_the_keyboard_and_enlarged(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared, viewport={"width": 640, "height": 400}, reduced_motion="reduce") as page:
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        before = page.locator("html").get_attribute("data-theme")
        page.get_by_role("button", name="Switch between light and dark").focus()
        page.keyboard.press("Space")
        page.reload()
        expect(page.locator("html")).not_to_have_attribute("data-theme", str(before))


def test_a_session_that_ends_before_an_action_comes_back_to_the_page(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared) as page:
        page.goto(f"{shared.url}/playground")
        page.context.clear_cookies()
        token = page.get_by_label("Token")  # on a busy machine the page goes to the login before the click
        page.get_by_role("button", name="Explain").or_(token).first.click()
        token.fill(shared.token("viewer"))
        page.get_by_role("button", name="Log in").first.click()
        expect(page.get_by_role("heading", name="Playground")).to_be_visible()


@pytest.mark.spec("CO-97")
def test_huge_events_are_cut_on_the_live_page(browser: Browser, shared: Lab) -> None:
    with watched(browser, shared, "/live") as page:
        shared.send({"id": "x" * 300_000, "type": "<b>huge</b>" * 1000})
        expect(page.get_by_role("row").filter(has_text="300,000 characters")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text="11,000 characters")).to_be_visible()
        assert page.evaluate("document.body.innerHTML.length") < 60_000


@pytest.mark.spec("CO-97")
def test_a_tap_holds_a_bounded_number_of_bytes() -> None:
    tap = Tap(Choice(held=50), None, SystemClock())
    tap.push([b"x" * (MOST_BYTES // 2 + 1)] * 3)
    lines, dropped = tap.take(100)
    assert (len(lines), dropped) == (1, 2)
    tap.push([b"x"] * 70)
    lines, dropped = tap.take(100)
    assert (len(lines), dropped) == (50, 20)
    assert short("é" * 300, 2) == "éé… (300 characters)"
