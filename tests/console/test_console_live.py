"""The live page: what comes in, as it comes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.console.lab import Lab

pytestmark = pytest.mark.spec("CO-30")


def watch(page: Page, shared: Lab, **asked: str) -> None:
    page.goto(f"{shared.url}/live")
    if "filter" in asked:
        page.get_by_label("Expression").fill(asked["filter"])
    if "trigger" in asked:
        page.get_by_label("Attempts of").select_option(asked["trigger"])
    with page.expect_response(lambda answer: "/live/tap" in answer.url):
        page.get_by_role("button", name="Watch").click()
    expect(page.get_by_role("status")).to_have_text("Live")


def test_events_come_and_can_be_chosen_and_paused(page: Page, shared: Lab) -> None:
    watch(page, shared, filter="type LIKE 'order.%' AND subject = 'mine'")
    shared.send({"id": "other", "subject": "yours"}, {"id": "chosen", "subject": "mine"})
    expect(page.locator("#tap tr")).to_have_count(1)
    expect(page.locator("#tap")).to_contain_text("chosen")
    page.get_by_role("button", name="Pause").click()
    shared.send({"id": "while paused", "subject": "mine"})
    page.get_by_role("button", name="Continue").click()
    shared.send({"id": "afterwards", "subject": "mine"})
    expect(page.locator("#tap tr").first).to_contain_text("afterwards")
    page.locator("#tap").get_by_role("link", name="chosen").click()
    page.wait_for_url("**/console/events?id=chosen*")


def test_an_expression_is_checked_as_it_is_typed(page: Page, shared: Lab) -> None:
    page.goto(f"{shared.url}/live")
    page.get_by_label("Expression").press_sequentially("type LIKE")
    expect(page.locator("#check")).to_contain_text("can't be used")
    page.get_by_label("Expression").fill("type=order.paid")
    expect(page.locator("#check")).not_to_contain_text("can't be used")


def test_attempts_show_their_answers(page: Page, shared: Lab) -> None:
    watch(page, shared, trigger="billing")
    shared.send({"id": "refused there"})
    row = page.locator("#tap tr").filter(has_text="refused there")
    expect(row.first).to_contain_text("failed")
    expect(row.first).to_contain_text("503")


@pytest.mark.spec("CO-31")
def test_hostile_attributes_are_text(page: Page, shared: Lab) -> None:
    watch(page, shared)
    hostile = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    shared.send({"id": hostile, "subject": "\u202eright to left"})
    expect(page.locator("#tap")).to_contain_text("<img src=x")
    assert page.locator("#tap img, #tap script").count() == 0
    assert page.title() == "Live · Tidegate"
