"""Two people at one console: each sees what the other does, and neither undoes it unawares."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.lab import Lab, opened

pytestmark = pytest.mark.spec("CO-98")


@contextmanager
def two(browser: Browser, found: Lab, role: str, path: str) -> Iterator[tuple[Page, Page]]:
    """A page of an admin, and the same of somebody else."""
    with opened(browser, found) as one, opened(browser, found, role=role) as other:
        for page in (one, other):
            page.goto(f"{found.url}{path}")
        yield one, other


def dead(found: Lab, name: str, count: int) -> None:
    """Brings dead letters about; the subscriber takes events afterwards."""
    found.bad.answer = 503
    assert not found.dead_letters()
    found.down(*({"id": f"{name}-{n}", "type": "order.paid", "data": {"n": n}} for n in range(count)))
    found.bad.answer = 202
    found.bad.requests.clear()


@pytest.mark.area(name="console")
def test_both_replay_the_same_dead_letters_at_once(browser: Browser, shared: Lab) -> None:
    dead(shared, "both", 40)
    with (
        two(browser, shared, "operator", "/dead-letters") as (one, other),
        opened(browser, shared, role="viewer") as viewer,
    ):
        viewer.goto(f"{shared.url}/dead-letters")
        expect(viewer.get_by_label("Summary")).to_contain_text("40")
        for page in (one, other):
            page.get_by_label("Events per second").fill("20")
            page.once("dialog", lambda dialog: dialog.accept())
            page.get_by_role("button", name="Replay all").click(no_wait_after=True)
        expect(one.get_by_label("Progress")).to_contain_text("40 of 40")
        expect(other.get_by_label("Progress")).to_contain_text("nothing left to send")
        expect(viewer.get_by_label("Replays")).to_contain_text("40 of 40")
        expect(viewer.get_by_label("Summary")).to_contain_text("Dead letters 0")
    sent = Counter(request.headers["ce-id"] for request in shared.bad.wait_for(40))
    assert sent == {f"both-{n}": 1 for n in range(40)}


def test_both_edit_the_same_dead_letter(browser: Browser, shared: Lab) -> None:
    dead(shared, "edited", 1)
    letter = shared.dead_letters()[0]["id"]
    with two(browser, shared, "admin", f"/dead-letters/{letter}/edit") as (one, other):
        for number, page in enumerate((one, other)):
            text = page.get_by_label("Event")
            text.fill(text.input_value().replace('"n": 0', f'"n": {number + 1}'))
            page.get_by_role("button", name="Show the difference").click()
            expect(page.get_by_label("Differences")).to_contain_text(f'"n": {number + 1}')
        one.get_by_role("button", name="Send the edited event").click()
        expect(one.get_by_label("Progress")).to_contain_text("1 of 1")
        other.get_by_role("button", name="Send the edited event").click()
        expect(other.get_by_role("alert")).to_contain_text("replayed, or removed")
    assert [json.loads(request.body) for request in shared.bad.requests] == [{"n": 1}]


@pytest.mark.area(name="console")
def test_both_change_a_trigger_at_once(browser: Browser, shared: Lab) -> None:
    made = {"broker": "default", "filters": [{"exact": {"type": "none"}}], "subscriber": shared.good.url}
    shared.post("/api/v1/apply", json={"triggers": {"common": made}}).raise_for_status()
    with two(browser, shared, "admin", "/apply?name=common") as (one, other):
        for page, wanted in ((one, "first"), (other, "second")):
            text = page.get_by_label("Config")
            text.fill(text.input_value().replace("none", wanted))
            page.get_by_role("button", name="Check").click()
            expect(page.get_by_label("Differences")).to_contain_text(wanted)
        one.get_by_role("button", name="Apply").click()
        expect(one.get_by_text("The trigger was applied")).to_be_visible()
        other.get_by_role("button", name="Check").click()
        expect(other.locator("#plan")).to_contain_text("common changed after you opened this page")
        expect(other.get_by_label("Differences")).to_contain_text("first")
        other.get_by_role("button", name="Apply").click()
        expect(other.get_by_text("The trigger was applied")).to_be_visible()
        assert "second" in shared.gateway.admin("/api/v1/triggers/common").text
    with two(browser, shared, "admin", "/apply") as (one, other):  # both make a new one of the same name
        for page in (one, other):
            page.get_by_role("button", name="Check").click()
            expect(page.locator("#plan")).to_contain_text("new")
        one.get_by_role("button", name="Apply").click()
        expect(one.get_by_text("The trigger was applied")).to_be_visible()
        other.get_by_role("button", name="Apply").click()
        expect(other.get_by_role("alert")).to_contain_text("my-trigger changed while you looked: nothing was applied")


@pytest.mark.area(name="console")
def test_what_one_pauses_the_other_sees_and_both_may(browser: Browser, shared: Lab) -> None:
    with two(browser, shared, "operator", "/triggers/orders") as (one, other):
        one.get_by_role("button", name="Pause").click()
        expect(other.get_by_label("State", exact=True)).to_contain_text("paused")
        other.get_by_role("button", name="Pause").click()
        expect(other.get_by_text("The trigger was paused")).to_be_visible()
        other.get_by_role("button", name="Resume").click()
        expect(one.get_by_label("State", exact=True)).to_contain_text("ready")
