"""Pages that stay open while their gateway dies and comes back, and while their session ends."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from gateway_api.tokens import write_token
from playwright.sync_api import Browser, Page, expect

from tests.console.lab import CONFIG, TABLE, lab, opened
from tests.console.places import places

pytestmark = pytest.mark.spec("CO-03")
TABS = 5
"""A browser has six connections for a host."""
NEEDED = ("/playground", "/triggers/billing", "/catalogue/type?type=order.paid")
"""Pages that are more than looked at."""


@pytest.mark.parametrize(
    "every", [pytest.param(3, id="a third"), pytest.param(1, id="all", marks=pytest.mark.area(name="console"))]
)
def test_each_open_page_follows_a_restart_and_the_end_of_its_session(
    browser: Browser, tmp_path: Path, every: int
) -> None:
    with lab(tmp_path, CONFIG + TABLE) as found, ExitStack() as opening:
        pages: dict[str, Page] = {}
        chosen = [p for n, p in enumerate(places(found)) if n % every == 0 or p in NEEDED or p.startswith("/replays/")]
        for number, path in enumerate(chosen):
            if number % TABS == 0:
                tab = opening.enter_context(opened(browser, found))
            pages[path] = tab if number % TABS == 0 else tab.context.new_page()
            pages[path].goto(f"{found.url}{path}")
        for page in pages.values():
            expect(page.locator("#connection")).to_have_text(re.compile("^(Live|Connected)$"))
        written = '{"specversion": "1.0", "id": "typed"}'
        pages["/playground"].get_by_label("Event").fill(written)
        found.gateway.kill()
        for page in pages.values():
            expect(page.locator("#connection")).to_contain_text("Connection lost")
        found.gateway.start()
        for path, page in pages.items():
            again = "there is no replay" if path.startswith("/replays") else "Reconnected at"
            expect(page.locator("#connection"), path).to_contain_text(again)
        expect(pages["/playground"].get_by_label("Event")).to_have_value(written)
        expect(pages["/catalogue/type?type=order.paid"].get_by_label("How often")).to_contain_text("Seen 1")

        write_token(found.gateway.data_dir)
        for path, page in pages.items():
            if not path.startswith("/replays"):
                expect(page.get_by_label("Token"), path).to_be_visible()
        for path in ("/playground", "/triggers/billing"):
            page = pages[path]
            page.get_by_label("Token").fill(found.token("admin"))
            page.get_by_role("button", name="Log in").first.click()
            expect(page.locator("#connection")).to_have_text(re.compile("^(Live|Connected)$"))
            assert page.url == f"{found.url}{path}"
        expect(pages["/playground"].get_by_label("Event")).to_have_value(written)
