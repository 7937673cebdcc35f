"""What every page has in common: it is accessible in both themes and fits a phone."""

from __future__ import annotations

import pytest
from gateway_console.page import NAVIGATION
from playwright.sync_api import Browser, expect

from tests.console.axe import violations
from tests.console.lab import NARROW, Lab, opened

pytestmark = pytest.mark.spec("CO-02")
PATHS = [entry.path for entry in NAVIGATION]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible_and_fits(browser: Browser, shared: Lab, path: str) -> None:
    shared.send({"id": "one"})
    with opened(browser, shared) as page:
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            page.goto(f"{shared.url}{path}")
            expect(page.locator("html")).to_have_attribute("data-theme", theme)
            assert violations(page) == []
        page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a phone"
