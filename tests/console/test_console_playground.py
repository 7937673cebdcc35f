"""The playground: what would happen to an event, and a scenario of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.command_line import tidegate
from tests.console.lab import CONFIG, Lab, lab, opened

pytestmark = pytest.mark.spec("CO-35")


def test_who_would_get_an_event_and_why(page: Page, shared: Lab, tmp_path: Path) -> None:
    before = len(shared.good.requests)
    page.goto(f"{shared.url}/playground")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("2 of 2 would get it")).to_be_visible()
    page.get_by_label("Event").fill('{"specversion": "1.0", "id": "7", "source": "/p", "type": "order.paid"}')
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("1 of 2 would get it")).to_be_visible()
    orders = page.get_by_role("region", name="trigger orders")
    expect(orders).to_contain_text("does not match")
    expect(orders).to_contain_text("order.created")
    billing = page.get_by_role("region", name="trigger billing")
    billing.get_by_text("Sends POST").click()
    expect(billing.get_by_role("table")).to_contain_text("ce-type")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a scenario").click()
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    config = saved.with_name("playground.yaml")
    config.write_text(shared.gateway.config.read_text())
    ran = tidegate("test", config)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
    assert len(shared.good.requests) == before


@pytest.mark.parametrize(
    ("text", "said"), [("{", "no event in JSON"), ('{"id": "1"}', "refuses it"), ("[]", "no event")]
)
def test_what_is_no_event_is_said_to_be_none(page: Page, shared: Lab, text: str, said: str) -> None:
    page.goto(f"{shared.url}/playground")
    page.get_by_label("Event").fill(text)
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("main")).to_contain_text(said)


@pytest.mark.spec("ONCE-13")
def test_a_duplicate_is_said_to_be_one(browser: Browser, tmp_path: Path) -> None:
    config = CONFIG.replace("]\ntriggers", "]\n    deduplicate: {{window: 7d}}\ntriggers")
    event = {"specversion": "1.0", "source": "/tests", "type": "order.created", "id": "7", "data": 1}
    with lab(tmp_path, config) as found, opened(browser, found) as page:
        found.send(event, event, {**event, "data": 2})
        page.goto(f"{found.url}/playground")
        for sent, said in (
            (event, "A duplicate: broker default has the first with its key at 0/1, and would not store it again."),
            ({**event, "data": 3}, "has the first with its key at 0/1, with other content"),
        ):
            page.get_by_label("Event").fill(json.dumps(sent))
            page.get_by_role("button", name="Explain").click()
            expect(page.get_by_role("main")).to_contain_text(said)
        page.get_by_label("Event").fill(json.dumps({**event, "id": "8"}))
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_text("A duplicate")).to_have_count(0)
        page.goto(f"{found.url}?broker=default")
        details = page.get_by_role("main").locator("dl").first
        for text in ("Duplicates, not stored2", "With other content1", "Keys known1 of the last 7 d"):
            expect(details).to_contain_text(text)
