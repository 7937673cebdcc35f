"""What waits until it is due: on the page of its trigger, by due time, cancelled and delivered now; and schedules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.console.axe import violations
from tests.console.lab import Lab, lab, opened

pytestmark = pytest.mark.spec("DELAY-11")
CONFIG = """
brokers:
  default:
    ingress:
      - http: {{listen: "127.0.0.1:0"}}
      - schedule: {{name: nightly, cron: "30 2 * * *", time_zone: Europe/Berlin, event: {{type: report.due}}}}
triggers:
  reminders:
    filter: {{type: order.placed}}
    subscriber: "{good}"
    delay: 30m
    deliver_at: {{attribute: deliverat}}
  plain: {{filter: {{type: none}}, subscriber: "{bad}"}}
"""
PHONE = {"width": 320, "height": 700}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("delayed"), CONFIG) as found:
        yield found


def delayed(found: Lab) -> int:
    return int(found.gateway.trigger("reminders")["delayed"])


def test_an_operator_cancels_an_event_and_delivers_another_one_now(browser: Browser, shared: Lab) -> None:
    placed = {"source": "/shop", "type": "order.placed"}
    for id, due in (("a", "PT20M"), ("b", ""), ("c", "PT5H"), ("d", "P3D")):
        shared.send({"id": f"order-{id}", **placed, **({"deliverat": due} if due else {})})
    shared.gateway.wait_until(lambda: delayed(shared) == 4, what="four events that wait")
    with opened(browser, shared, role="operator") as page, opened(browser, shared, role="viewer") as viewer:
        page.goto(f"{shared.url}/triggers/reminders")
        expect(page.get_by_label("State", exact=True)).to_contain_text("Delayed 4")
        expect(page.get_by_label("State", exact=True)).to_contain_text("The first delayed event is due at")
        page.get_by_role("link", name="delayed events").click()
        viewer.goto(page.url)
        for each in (page, viewer):
            counts = each.get_by_label("How many wait, and how many of them are due")
            for text in ("Waiting 4", "Within a minute 0", "Within an hour 2", "Within a day 3", "Within a month 4"):
                expect(counts).to_contain_text(text)
            ids = each.get_by_role("rowheader").all_inner_texts()
            assert ids == ["order-a", "order-b", "order-c", "order-d"]
        expect(viewer.get_by_role("button", name="now")).to_have_count(0)
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Cancel order-b").click()
        assert delayed(shared) == 4
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Cancel order-b").click()
        expect(page.get_by_role("main").get_by_role("status")).to_contain_text("The event was cancelled.")
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Deliver order-c now").click()
        expect(page.get_by_role("main").get_by_role("status")).to_contain_text("delivered now")
        shared.good.wait_for(1)
        page.goto(f"{shared.url}/triggers/reminders/delayed")
        assert page.get_by_role("rowheader").all_inner_texts()[-1] == "order-d"
        viewer.emulate_media(color_scheme="dark")
        viewer.reload()
        viewer.set_viewport_size(PHONE)  # type: ignore[arg-type]
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        for each in (page, viewer):
            assert violations(each) == []
            assert each.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert [r.headers["ce-id"] for r in shared.good.requests] == ["order-c"]
    form = {"id": "order-d", "source": "/shop"}
    assert shared.post("/api/v1/triggers/reminders/delayed/cancel", role="viewer", json=form).status_code == 403


def test_a_trigger_without_delay_says_that_nothing_waits(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared, role="viewer") as page:
        page.goto(f"{shared.url}/triggers/plain")
        expect(page.get_by_label("State", exact=True)).to_be_visible()
        expect(page.get_by_role("link", name="delayed events")).to_have_count(0)
        page.goto(f"{shared.url}/triggers/plain/delayed")
        expect(page.get_by_role("main")).to_contain_text("No event waits until it is due.")
        page.goto(f"{shared.url}/triggers/nobody/delayed")
        expect(page.get_by_role("main")).to_contain_text("there is no trigger 'nobody'")


@pytest.mark.spec("SCHED-05")
def test_the_overview_shows_the_next_ten_runs_of_a_schedule(browser: Browser, shared: Lab) -> None:
    with opened(browser, shared, role="viewer", viewport=PHONE) as page:
        page.goto(shared.url)
        table = page.get_by_role("region", name="Schedules")
        expect(table).to_contain_text("nightly")
        page.get_by_label("Next ten runs of nightly").click()
        expect(table.get_by_role("listitem")).to_have_count(10)
        expect(table.get_by_role("listitem").first).to_contain_text(" 02:30:00+0")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
