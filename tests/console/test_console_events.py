"""The pages of events: the search, and one event's timeline."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import httpx
import pytest
from gateway_auth.keys import add_key
from gateway_console.recorder import Recorder
from playwright.sync_api import Browser, Page, expect

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.event import Event
from gateway_core.contract.outcome import Outcome
from tests import web
from tests.console.axe import violations
from tests.console.lab import NARROW, Lab, lab, opened

CONFIG = """
brokers:
  default:
    ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]
  gated:
    ingress: [{{http: {{listen: "127.0.0.1:0", authenticate: [{{api_key: {{file: keys.json, header: x-entry}}}}]}}}}]
bridges:
  brief:
    source: {{http: {{listen: "127.0.0.1:0"}}}}
    sink: {{http: {{url: "{good}"}}}}
triggers:
  orders:
    broker: default
    filters: [{{exact: {{type: order.created}}}}]
    delivery: {{retry: 300, backoff_delay_s: 0.3, backoff_max_s: 0.3}}
    subscriber: {{http: {{url: "{bad}"}}}}
  billing:
    broker: default
    filters: [{{prefix: {{type: billing.}}}}]
    delivery: {{retry: 0}}
    subscriber: {{http: {{url: "{bad}"}}}}
console:
  hide: {{data: true, attributes: [card, type], below: operator}}
"""


KEYS: dict[str, str] = {}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("events")
    KEYS["anna"] = add_key(folder / "keys.json", "anna")[1]
    with lab(folder, CONFIG) as found:
        found.bad.answer = 202
        found.send({"id": "unseen", "type": "billing.early"})
        found.gateway.wait_until(lambda: found.gateway.trigger("billing")["delivered"] == 1)
        yield found


def open_event(page: Page, shared: Lab, id: str, **more: str) -> None:
    page.goto(f"{shared.url}/events?{urlencode({'id': id, **more})}")


@pytest.mark.spec("CO-20")
def test_a_delivery_after_retries_shows_each_attempt_and_wait(page: Page, shared: Lab) -> None:
    page.goto(f"{shared.url}/events")  # from now on it is recorded
    shared.bad.answer = 503
    shared.send({"id": "late", "subject": "42", "data": {"amount": 3}})
    open_event(page, shared, "late")
    timeline = page.get_by_role("list").filter(has=page.locator(".received"))
    expect(timeline).to_contain_text("Accepted by default at position")
    expect(timeline).to_have_css("list-style-type", "none")
    first = timeline.locator(".attempt", has_text="Attempt 1: failed")
    expect(first).to_contain_text("503")
    expect(first.locator(".took")).to_be_visible()
    expect(timeline.locator(".wait").first).to_contain_text("Waited")
    expect(timeline.locator(".next")).to_contain_text("retrying")
    shared.bad.answer = 202
    expect(timeline.locator(".attempt.good")).to_contain_text("delivered")
    expect(timeline.locator(".attempt.good .took")).to_be_visible()
    orders = timeline.locator(".delivery", has_text="orders")
    expect(orders.locator(".state")).to_have_text("delivered")
    billing = timeline.locator(".delivery", has_text="billing")
    expect(billing.locator(".state")).to_have_text("not matched")
    expect(billing.locator(".fails")).to_contain_text("billing.")
    expect(page.get_by_label("Data", exact=True)).to_contain_text('"amount": 3')
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        assert violations(page) == []
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.spec("CO-24")
def test_who_sent_an_event_from_where_and_with_which_headers(page: Page, shared: Lab) -> None:
    page.goto(f"{shared.url}/events")
    sent = {
        "x-entry": KEYS["anna"],
        "authorization": "Bearer of-a-stranger",
        "x-note": HOSTILE,
        "x-double": "card 4111",
        "ce-specversion": "1.0",
        "ce-id": "sent",
        "ce-source": "/s",
        "ce-type": "top.secret",
        "ce-card": "4111",
    }
    web.post(shared.gateway.ingress("gated"), headers=sent, content=b"{}").raise_for_status()
    open_event(page, shared, "sent")
    received = page.locator(".timeline .received")
    expect(received).to_contain_text("sent by key anna (api_key) from 127.0.0.1:")
    page.get_by_text("Headers as they came").click()
    rows = {row.locator("th").inner_text(): row.locator("td").inner_text() for row in received.locator("tr").all()}
    shown = {name: rows.get(name) for name in sent}
    assert shown == {**sent, "x-entry": "(hidden)", "authorization": "(hidden)"}
    assert page.locator("main img").count() == 0
    assert violations(page) == []
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    headers = shared.headers("viewer")
    text = web.get(f"{shared.url}/events?id=sent", headers=headers, timeout=60).text
    assert "key anna" in text
    assert "x-double" in text
    assert not [word for word in ("4111", "top.secret", "of-a-stranger", KEYS["anna"]) if word in text]


@pytest.mark.spec("CO-23")
def test_what_happened_while_nobody_looked_was_not_recorded(page: Page, shared: Lab) -> None:
    open_event(page, shared, "unseen")
    expect(page.locator(".delivery").first.locator(".state")).to_have_text("delivered")
    assert page.locator(".timeline .attempt").count() == 0
    expect(page.get_by_text("are recorded since")).to_be_visible()
    assert page.locator("#raw-headers").count() == 0


@pytest.mark.spec("CO-20")
def test_a_dead_letter_has_its_reason(page: Page, shared: Lab) -> None:
    shared.bad.answer = 400
    shared.send({"id": "dead", "type": "billing.due"})
    open_event(page, shared, "dead")
    letter = page.locator(".timeline .dead_letter")
    expect(letter).to_contain_text("Dead letter after 1 attempt")
    expect(letter.get_by_role("link", name="Dead letters of billing")).to_be_visible()
    expect(page.locator(".delivery").first.locator(".state")).to_have_text("dead lettered")


@pytest.mark.spec("CO-20")
def test_an_event_of_a_channel_without_a_past_was_recorded(page: Page, shared: Lab) -> None:
    page.goto(f"{shared.url}/events")
    shared.send({"id": "memo", "type": "note"}, broker="brief")
    open_event(page, shared, "memo")
    expect(page.locator(".timeline .attempt.good")).to_be_visible()
    expect(page.locator(".timeline .received")).to_contain_text("from 127.0.0.1:")
    page.goto(f"{shared.url}/events?broker=brief")
    expect(page.get_by_role("link", name="memo")).to_be_visible()
    expect(page.get_by_text("can't be searched")).to_be_visible()


@pytest.mark.spec("CO-21")
def test_events_are_searched_by_type_source_and_time(page: Page, shared: Lab) -> None:
    shared.send(*({"id": f"many-{n}", "type": "found.many", "source": f"/shop/{n % 2}"} for n in range(120)))
    page.goto(f"{shared.url}/events")
    page.get_by_label("Type").fill("found.*")
    page.get_by_label("Source").fill("/shop/1")
    page.get_by_role("button", name="Search").click()
    rows = page.locator(".results tbody tr:has(td.mono)")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("many-119")
    page.get_by_role("link", name="Search further").click()
    expect(rows).to_have_count(60)
    expect(page.locator(".step")).to_contain_text("events in question were searched")
    page.get_by_label("Until (UTC)").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".step")).to_contain_text("Nothing more was found")
    open_event(page, shared, "there-is-no-such-id")
    expect(page.locator(".step")).to_contain_text("No event with this id was found")
    assert page.goto(f"{shared.url}/events?since=yesterday").status == 422  # type: ignore[union-attr]
    expect(page.get_by_role("alert")).to_contain_text("is no time")


@pytest.mark.spec("CO-21")
def test_events_of_one_id_are_there_to_choose_from(page: Page, shared: Lab) -> None:
    shared.send({"id": "twice", "source": "/a", "type": "x"}, {"id": "twice", "source": "/b", "type": "x"})
    open_event(page, shared, "twice")
    assert violations(page) == []
    page.get_by_role("link", name="/b", exact=True).click()
    expect(page.locator(".about")).to_contain_text("/b")


HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


@pytest.mark.spec("CO-22")
def test_hostile_content_is_text(page: Page, shared: Lab) -> None:
    big = base64.b64encode(bytes(range(256)) * 2000).decode()
    shared.send(
        {"id": HOSTILE, "subject": "\u202eright to left", "data": HOSTILE, "type": "x"},
        {"id": "binary", "data_base64": big, "type": "x"},
    )
    shared.send(
        {"id": "long", "data": "<b>" * 100_000, "type": "x"},
    )
    page.goto(f"{shared.url}/events?type=x")
    page.get_by_role("link", name="<img src=x").first.click()
    expect(page.get_by_label("Data", exact=True)).to_contain_text("<script>")
    assert page.locator("main img, main script").count() == 0
    assert "taken" not in page.title().partition("<")[0]
    open_event(page, shared, "binary")
    expect(page.get_by_label("Data", exact=True)).to_contain_text("00000010  10 11 12")
    expect(page.get_by_text("500 KiB; only the start is shown")).to_be_visible()
    open_event(page, shared, "long")
    assert page.locator("#data b").count() == 0
    expect(page.get_by_text("only the start is shown")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert json.loads(Path(download.value.path()).read_text())["data"] == "<b>" * 100_000


@pytest.mark.spec("CO-22")
def test_what_is_hidden_can_t_be_seen_or_searched(browser: Browser, shared: Lab) -> None:
    shared.send({"id": "private", "card": "4111", "type": "secret.type", "data": {"pin": "1234"}})
    headers = shared.headers("viewer")

    def get(**asked: str) -> httpx.Response:
        return web.get(f"{shared.url}/events", params=asked, headers=headers, timeout=60)

    shown = get(id="private").text
    assert "(hidden)" in shown
    assert not [word for word in ("4111", "secret.type", "1234") if word in shown]
    assert "secret.type" not in get(source="/tests").text
    assert get(type="secret.*").status_code == 422
    link = f"{shared.url}/events/download?id=private"
    assert web.get(link, headers=headers, timeout=60).status_code == 403
    with opened(browser, shared) as page:
        open_event(page, shared, "private")
        expect(page.get_by_label("Data", exact=True)).to_contain_text("1234")


@pytest.mark.spec("CO-20")
def test_the_commands_send_the_event_again(page: Page, shared: Lab) -> None:
    text = 'it\'s \\n "quoted" and ünï'
    shared.send({"id": "again", "type": "note", "source": "/again", "data": {"text": text}})
    open_event(page, shared, "again")
    curl = shlex.split(page.locator("#as-curl").inner_text())
    assert curl[:3] == ["curl", "-X", "POST"]
    media = curl[curl.index("-H") + 1].partition(": ")[2]
    sent = web.post(curl[3], headers={"content-type": media}, content=curl[curl.index("-d") + 1].encode())
    assert sent.status_code == 202, sent.text
    printed = page.locator("#as-send").inner_text().partition(" | tidegate send ")
    text_of_line = subprocess.run(["sh", "-c", printed[0]], capture_output=True, check=True, text=True).stdout
    assert json.loads(text_of_line)["data"] == {"text": text}
    assert shlex.split(printed[2]) == [curl[3], "-"]
    page.reload()
    expect(page.get_by_text("This id was found more than once")).to_be_visible()


@pytest.mark.slow
@pytest.mark.spec("CO-23")
def test_of_many_events_some_are_recorded_and_every_failure() -> None:
    recorder = Recorder(SimpleNamespace(clock=SystemClock()))  # type: ignore[arg-type]
    events = [Event({"id": f"m{n}", "source": "/x", "type": "t"}, b"{}") for n in range(20_000)]
    failed, done = Outcome(False, code=503), Outcome(True)
    for first in range(0, len(events), 100):
        recorder.accepted("default", events[first : first + 100])
        for event in events[first : first + 100]:
            recorder.attempted("t", event, failed if event is events[first] else done, 0.1)
    told = [recorder.answer({"of": {"id": f"m{n}", "source": None}}) for n in range(20_000)]
    kinds = [[entry["kind"] for entry in each["entries"]] for each in told]
    assert all(kinds[n] for n in range(0, 20_000, 100)), "each failure is there"
    assert 500 <= sum(each == ["accepted", "attempt"] for each in kinds) < 10_000
    assert told[0]["some"]
