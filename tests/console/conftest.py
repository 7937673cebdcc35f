"""The browser, and a gateway that the tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.console import browser as browsers
from tests.console.lab import Lab, lab, opened


@pytest.fixture(scope="module")
def browser(processes: None) -> Iterator[Browser]:
    """One browser for the tests of a file; each test has pages of its own, without the cookies of others. While it is
    open Playwright's event loop runs, so no other test of this worker may come between."""
    expect.set_options(timeout=60_000)
    found = browsers.find()
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=found.program, env=dict(found.env) or None, args=["--no-sandbox", "--disable-gpu"]
        )
        yield made
        made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    """A gateway for tests that don't disturb each other: events and triggers of your own, by names of your own."""
    with lab(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture
def page(browser: Browser, shared: Lab) -> Iterator[Page]:
    """A page of that gateway, logged in as an admin."""
    with opened(browser, shared) as found:
        yield found
