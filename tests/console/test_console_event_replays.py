"""The pages of replays of past events: count first, then send, with progress; pause and go on."""

from __future__ import annotations

from collections import Counter

import pytest
from playwright.sync_api import Browser, expect

from tests.console.lab import Lab, opened

pytestmark = pytest.mark.spec("AGAIN-18")


def test_yesterday_is_counted_replayed_paused_and_continued(browser: Browser, shared: Lab) -> None:
    count = 60
    shared.send(*({"id": f"again-{n}", "source": "/again"} for n in range(count)))
    shared.good.wait_for(count)
    shared.good.requests.clear()
    with opened(browser, shared, role="operator") as page, opened(browser, shared, role="viewer") as viewer:
        page.goto(f"{shared.url}/event-replays")
        page.get_by_label("Trigger").select_option("orders")
        page.get_by_label("Filter").fill("source=/again")
        page.get_by_label("Events per second").fill("20")
        page.get_by_role("button", name="Count").click()
        expect(page.get_by_label("What would be sent")).to_contain_text(f"Events {count}")
        expect(page.get_by_label("Types")).to_contain_text("order.created")
        assert not shared.good.requests
        viewer.goto(page.url)
        expect(viewer.get_by_label("What would be sent")).to_contain_text(f"Events {count}")
        expect(viewer.get_by_role("button", name=f"Replay {count} to orders")).to_have_count(0)
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name=f"Replay {count} to orders").click()
        expect(page.get_by_label("Progress")).to_contain_text("running")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_label("Progress")).to_contain_text("paused")
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        viewer.goto(page.url)
        expect(viewer.get_by_role("button", name="Resume")).to_have_count(0)
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_label("Progress")).to_contain_text(f"{count} of {count}", timeout=30_000)
        expect(viewer.get_by_label("Progress")).to_contain_text("done")
        expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
        page.goto(f"{shared.url}/event-replays")
        expect(page.get_by_label("Replays").last).to_contain_text("orders")
    assert Counter(r.headers["ce-id"] for r in shared.good.requests) == {f"again-{n}": 1 for n in range(count)}


def test_what_can_not_be_replayed_says_why(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared, role="operator") as page:
        page.goto(f"{shared.url}/event-replays?trigger=orders&from=noon")
        expect(page.get_by_role("main")).to_contain_text("'noon' is not a time (RFC 3339)")


def test_an_operator_may_not_say_where_events_are_sent(shared: Lab) -> None:
    asked = {"trigger": "orders", "from": "1h", "to_sink": shared.bad.url}
    answer = shared.post("/api/v1/event-replays", role="operator", json=asked)
    assert (answer.status_code, "only an admin" in answer.json()["detail"]) == (403, True)
    assert shared.post("/api/v1/event-replays/preview", role="viewer", json=asked).status_code == 200
    assert (
        shared.post("/api/v1/event-replays", role="viewer", json={"trigger": "orders", "from": "1h"}).status_code == 403
    )
