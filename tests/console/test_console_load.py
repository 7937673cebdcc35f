"""Each page and each action of the console while events pour in and a subscriber fails."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_testing.subscriber import Subscriber
from playwright.sync_api import Browser, Page, expect

from tests.console.lab import CONFIG, TABLE, Lab, lab, opened
from tests.console.places import places

pytestmark = pytest.mark.spec("CO-99")


class Load:
    """Events that come all the time: half of them for a subscriber that refuses some."""

    def __init__(self, found: Lab) -> None:
        self.sent = 0
        self.faults: list[Exception] = []
        self._found = found
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.05):
            # in turns it takes all, and refuses all
            self._found.bad.answer = 202 if self.sent % 400 < 200 else 503
            numbers = range(self.sent, self.sent + 20)
            types = ("order.created", "order.paid")
            try:
                self._found.send(*({"id": f"l{n}", "type": types[n % 2], "data": {"n": n}} for n in numbers))
            except Exception as e:
                self.faults.append(e)
                return
            self.sent += 20

    def stop(self) -> None:
        self._done.set()


@contextmanager
def under_load(found: Lab) -> Iterator[Load]:
    load = Load(found)
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load
    finally:
        load.stop()
        thread.join()


def click(page: Page, name: str, *, sure: bool = False) -> None:
    if sure:
        page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=name, exact=True).first.click()


@pytest.mark.usefixtures("processes")
def test_each_page_and_actions_without_a_browser_while_events_pour_in(tmp_path: Path) -> None:
    with lab(tmp_path, CONFIG + TABLE) as found:
        paths = places(found)
        with under_load(found) as load:
            for path in paths:
                answer = found.gateway.admin(f"/console{path}")
                assert answer.status_code == (404 if path == "/nothing" else 200), path
            for action in ("pause", "resume"):
                found.post(f"/api/v1/triggers/billing/{action}").raise_for_status()
            found.post("/api/v1/replays", json={"all": True, "trigger": "billing"}).raise_for_status()
        assert load.faults == []
        found.bad.answer = 202
        found.gateway.wait_until(lambda: not replaying(found), what="the end of the replay")
        found.gateway.wait_until(lambda: found.gateway.drained("orders", "billing"), what="the end of deliveries")
        assert {f"l{n}" for n in range(0, load.sent, 2)} <= got(found.good)
        dead = {letter["event_id"] for letter in found.dead_letters()}
        assert {f"l{n}" for n in range(load.sent)} <= got(found.bad) | dead
        assert "Traceback" not in found.gateway.stderr.read_text()


@pytest.mark.full
def test_each_page_and_each_action_while_events_pour_in(browser: Browser, tmp_path: Path) -> None:
    with lab(tmp_path, CONFIG + TABLE, ["--reload", "signal"]) as found, opened(browser, found) as page:
        paths = places(found)
        with under_load(found) as load:
            for path in paths:
                answer = page.goto(f"{found.url}{path}")
                assert answer is not None
                assert answer.status == (404 if path == "/nothing" else 200), path
                expect(page.locator("#connection"), path).to_have_text(re.compile("^(Live|Connected)$"))
            triggers(page, found)
            events(page, found)
            letters(page, found)
            rest(page, found)
        assert load.faults == []
        found.bad.answer = 202
        found.gateway.wait_until(lambda: not replaying(found), what="the end of the replay that was begun")
        found.gateway.wait_until(lambda: found.gateway.drained("orders", "billing"), what="the end of deliveries")
        found.bad.requests.clear()
        left = {letter["event_id"] for letter in found.dead_letters()}
        page.goto(f"{found.url}/dead-letters")
        page.get_by_label("Events per second").fill("0")
        click(page, "Replay all", sure=True)
        expect(page.get_by_label("Progress")).to_contain_text("done")
        found.gateway.wait_until(lambda: left <= got(found.bad), what="all that failed before to be delivered")
        assert found.dead_letters() == []
        assert {f"l{n}" for n in range(0, load.sent, 2)} <= got(found.good)
        assert "Traceback" not in found.gateway.stderr.read_text()


def replaying(found: Lab) -> bool:
    """Whether a replay is running."""
    items = found.gateway.admin("/api/v1/replays").json()["items"]
    return any(item["state"] in ("waiting", "running") for item in items)


def got(subscriber: Subscriber) -> set[str]:
    """The ids that a subscriber has got."""
    return {request.headers["ce-id"] for request in [*subscriber.requests]}


def triggers(page: Page, found: Lab) -> None:
    page.goto(f"{found.url}/triggers/billing")
    for name, done in (("Pause", "paused"), ("Resume", "resumed")):
        click(page, name)
        expect(page.get_by_text(f"The trigger was {done}")).to_be_visible()
    click(page, "Try")
    expect(page.locator("#tried")).to_contain_text("matches")
    expect(page.get_by_role("region", name="Recent failures")).to_contain_text("503")
    for text in ("order.created", "order.none"):
        page.goto(f"{found.url}/apply" if text == "order.created" else f"{found.url}/apply?name=my-trigger")
        config = page.get_by_label("Config")
        url = found.good.url
        config.fill(config.input_value().replace("http://127.0.0.1:8000/", url).replace("order.created", text))
        click(page, "Check")
        expect(page.locator("#plan")).to_contain_text("new" if text == "order.created" else "changes")
        click(page, "Apply")
        expect(page.get_by_text("The trigger was applied")).to_be_visible()
    click(page, "Delete", sure=True)
    page.wait_for_url("**/console/triggers")


def events(page: Page, found: Lab) -> None:
    page.goto(f"{found.url}/live")
    expect(page.locator("#tap tr").first).to_be_visible()
    click(page, "Pause")
    page.locator("#tap").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^l[0-9]+$"))
    page.goto(f"{found.url}/events?type=order.paid")
    expect(page.get_by_role("link", name=re.compile("^l[0-9]+$"))).to_have_count(50)
    page.get_by_role("link", name="Search further").click()
    expect(page.get_by_role("link", name=re.compile("^l[0-9]+$")).nth(50)).to_be_visible()
    page.goto(f"{found.url}/playground")
    click(page, "Explain")
    expect(page.get_by_text("would get it")).to_be_visible()
    with page.expect_download():
        click(page, "Save as a scenario")


def letters(page: Page, found: Lab) -> None:
    page.goto(f"{found.url}/dead-letters?trigger=billing")
    page.get_by_label("Events per second").fill("1")
    click(page, "Replay selected", sure=True)
    click(page, "Cancel")
    expect(page.get_by_label("Progress")).to_contain_text("cancelled")
    page.goto(f"{found.url}/dead-letters")
    page.get_by_role("button", name=re.compile("^Replay the .* of billing")).first.click()
    expect(page.get_by_label("Progress")).to_contain_text(re.compile("done|running"))
    page.goto(f"{found.url}/dead-letters")
    page.get_by_role("link", name=re.compile("^(l[0-9]+|dead)$")).first.click()
    click(page, "What would be sent now?")
    expect(page.get_by_label("trigger billing")).to_contain_text("gets it")
    page.get_by_role("link", name="Edit and replay").click()
    click(page, "Show the difference")
    expect(page.locator("#plan")).to_contain_text("would get it")


def rest(page: Page, found: Lab) -> None:
    page.goto(f"{found.url}/config")
    click(page, "Reload")
    expect(page.get_by_text("The config was read again")).to_be_visible()
    page.goto(f"{found.url}/catalogue")
    expect(page.get_by_role("link", name="order.paid", exact=True).first).to_be_visible()
    with page.expect_download():
        page.get_by_role("link", name="AsyncAPI (JSON)").click()
    page.goto(f"{found.url}/tables/lake")
    click(page, "Show the last rows")
    expect(page.locator("#newest")).to_contain_text("There are no rows")
    page.goto(f"{found.url}?search=bill")
    expect(page.get_by_label("Topology").get_by_role("link", name="trigger billing")).to_be_visible()
