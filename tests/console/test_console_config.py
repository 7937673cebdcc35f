"""The config page: what is in force, what the files say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.lab import CONFIG, lab, opened

pytestmark = pytest.mark.spec("CO-80")
CREDENTIAL = "Bearer sesame-open"  # planted, to look for


def test_faults_and_differences_of_the_files(browser: Browser, tmp_path: Path) -> None:
    secret = 'url: "{good}", headers: {{authorization: "' + CREDENTIAL + '"}}'
    with (
        lab(tmp_path, CONFIG.replace('url: "{good}"', secret), ["--reload", "signal"]) as found,
        opened(browser, found) as page,
    ):
        file = found.gateway.config
        text = file.read_text()
        page.goto(f"{found.url}/config")
        expect(page.get_by_text("They hold the config in force")).to_be_visible()
        assert CREDENTIAL in text
        assert CREDENTIAL not in page.content()
        assert "****" in page.locator("#in-force").inner_text()

        file.write_text(text.replace("retry: 0", "retries: 0"))
        page.reload()
        fault = page.locator(".faults li")
        expect(fault).to_contain_text("retries")
        line = text[: text.index("retry: 0")].count("\n") + 1
        expect(fault).to_contain_text(f"{file}:{line}")

        file.write_text(text.replace("retry: 0", "retry: 7"))
        page.reload()
        expect(page.get_by_label("Differences")).to_contain_text("retry: 7")
        page.get_by_role("button", name="Reload").click()
        expect(page.get_by_role("status").last).to_contain_text("read again")
        expect(page.get_by_text("They hold the config in force")).to_be_visible()
        assert "retry: 7" in page.locator("#in-force").inner_text()

        file.write_text("brokers: [")
        page.reload()
        page.get_by_role("button", name="Reload").click()
        expect(page.get_by_role("alert")).to_contain_text(str(file))
