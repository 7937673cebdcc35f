"""What every page has in common: it is accessible in both themes and fits a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.axe import violations
from tests.console.lab import CONFIG, NARROW, TABLE, WIDE, Lab, lab
from tests.console.places import places

pytestmark = pytest.mark.spec("CO-02")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("pages"), CONFIG + TABLE) as found:
        yield found


@pytest.mark.parametrize(
    "themes", [1, pytest.param(2, marks=pytest.mark.area(name="console"))], ids=["one theme each", "both themes"]
)
def test_each_page_is_accessible_and_fits(page: Page, shared: Lab, themes: int) -> None:
    for number, path in enumerate([*places(shared), "/login"]):
        if path == "/login":
            page.context.clear_cookies()  # it would lead away who is logged in
        page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        order = ("light", "dark") if number % 2 else ("dark", "light")
        page.emulate_media(color_scheme=order[0])  # type: ignore[arg-type]
        page.goto(f"{shared.url}{path}")
        for theme in order[:themes]:
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            expect(page.locator("html")).to_have_attribute("data-theme", theme)
            assert violations(page) == [], (path, theme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
        page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than a phone"
