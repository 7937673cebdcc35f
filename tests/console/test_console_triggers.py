"""The pages of triggers: how each does, and what can be changed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.axe import violations
from tests.console.lab import Lab, opened

pytestmark = pytest.mark.spec("CO-50")


def test_a_trigger_that_fails_says_why(page: Page, shared: Lab) -> None:
    shared.send({"id": "lost"})
    page.goto(f"{shared.url}/triggers?search=bill")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="billing").click()
    expect(page.get_by_role("table")).to_contain_text("503")
    expect(page.get_by_role("link", name="lost", exact=True).first).to_be_visible()
    line = shared.gateway.config.read_text().split("  billing:")[0].count("\n") + 1
    expect(page.get_by_text(f"{shared.gateway.config}:{line}")).to_be_visible()
    assert violations(page) == []


def test_a_trigger_is_paused_and_resumed(page: Page, shared: Lab) -> None:
    page.goto(f"{shared.url}/triggers/orders")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("The trigger was paused")).to_be_visible()
    expect(page.get_by_label("State", exact=True)).to_contain_text("paused")
    assert shared.gateway.trigger("orders")["paused"]
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("The trigger was resumed")).to_be_visible()
    assert not shared.gateway.trigger("orders")["paused"]
    audit = "".join(file.read_text() for file in (shared.gateway.data_dir / "audit").iterdir())
    assert '"trigger.pause"' in audit
    assert '"admin token"' in audit


def test_its_filter_can_be_tried(page: Page, shared: Lab) -> None:
    page.goto(f"{shared.url}/triggers/orders")
    page.get_by_role("button", name="Try").click()
    expect(page.locator("#tried")).to_contain_text("matches")
    page.get_by_label("Event").fill('{"specversion": "1.0", "id": "1", "source": "/x", "type": "other"}')
    page.get_by_role("button", name="Try").click()
    expect(page.locator("#tried")).to_contain_text("does not match")


@pytest.mark.spec("CO-51")
def test_a_trigger_is_applied_changed_and_deleted(page: Page, shared: Lab) -> None:
    page.goto(f"{shared.url}/triggers")
    page.get_by_role("link", name="New trigger").click()
    text = page.get_by_label("Config")
    written = text.input_value().replace("my-trigger", "late").replace("http://127.0.0.1:8000/", shared.good.url)
    text.fill(written.replace("subscriber", "subscribr"))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("subscribr")
    text.fill(written)
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#plan")).to_contain_text("new")
    assert "late" not in shared.gateway.admin("/api/v1/triggers").text
    assert violations(page) == []
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("The trigger was applied")).to_be_visible()
    page.get_by_role("link", name="Change").click()
    text.fill(text.input_value().replace("order.created", "order.paid"))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_label("Differences").locator(".added")).to_contain_text("order.paid")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_label("Config")).to_contain_text("order.paid")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/console/triggers")
    assert "late" not in shared.gateway.admin("/api/v1/triggers").text


@pytest.mark.spec("CO-01")
def test_a_viewer_sees_no_button_that_changes_something(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared, log_in=False) as page:
        page.goto(f"{shared.url}/triggers/orders")
        page.get_by_label("Token").fill(shared.token("viewer"))
        page.get_by_role("button", name="Log in").first.click()
        expect(page.get_by_role("heading", name="orders")).to_be_visible()
        assert page.get_by_role("button", name="Pause").count() == 0
        page.goto(f"{shared.url}/apply")
        expect(page.get_by_role("alert")).to_contain_text("role admin")
