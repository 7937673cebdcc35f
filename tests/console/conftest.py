"""The browser, and a gateway that the tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.console import browser as browsers
from tests.console.lab import Lab, lab, opened


class _Kept:
    """The browser while tests that need it follow each other: to start one takes a second of CPU time."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._made: Browser | None = None

    def browser(self) -> Browser:
        if self._made is None:
            found = browsers.find()
            playwright = self._open.enter_context(sync_playwright())
            self._made = playwright.chromium.launch(
                executable_path=found.program, env=dict(found.env) or None, args=["--no-sandbox", "--disable-gpu"]
            )
            self._open.callback(self._made.close)
        return self._made

    def close(self) -> None:
        self._made = None
        self._open.close()


_kept = _Kept()


@pytest.fixture(scope="module")
def browser(processes: None) -> Browser:
    """The browser of all tests; each has pages of its own, without the cookies of others."""
    expect.set_options(timeout=60_000)
    return _kept.browser()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """While the browser is open, Playwright's event loop runs: no other test may come between."""
    try:
        return (yield)
    finally:
        if "browser" not in getattr(nextitem, "fixturenames", ()):
            _kept.close()


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
