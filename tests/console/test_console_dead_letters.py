"""Dead letters in the console: from "a subscriber was down for an hour" to "all replayed and seen delivered"."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from gateway_deadletter import line as line_format
from gateway_deadletter.encryption import Keys
from playwright.sync_api import Browser, Page, expect

from gateway_core.contract.event import Event
from tests import web
from tests.console.axe import violations
from tests.console.lab import Lab, lab, opened

HOSTILE = "<script>alert(1)</script>\"'‮&amp;"
NOW_NS = 1_790_000_000_000_000_000


@pytest.fixture(autouse=True)
def _clean(shared: Lab) -> None:
    """No dead letters, and a subscriber that is down."""
    shared.bad.answer = 503
    file_of(shared).write_bytes(b"")


def letter(number: int, **more: Any) -> bytes:
    facts = {
        "tidegatetrigger": "billing",
        "tidegateattempts": 1,
        "tidegatestage": "delivery",
        "tidegatereason": f"status 503 after {number} ms",
        "knativeerrorcode": "503",
        "tidegatefirst": f"2026-09-21T1{number % 4}:00:00.000000Z",
        "tidegatelast": f"2026-09-21T1{number % 4}:{number % 60:02}:00.000000Z",
    }
    own = {"specversion": "1.0", "id": str(number), "source": "/tests", "type": "order.paid", **facts, **more}
    return line_format.write(Event(own, b'{"n": %d}' % number), NOW_NS + number)


def file_of(found: Lab) -> Path:
    return found.gateway.data_dir / "dead-letter" / "default.jsonl"


def bury(found: Lab, *lines: bytes) -> None:
    file_of(found).write_bytes(b"".join(line + b"\n" for line in lines))


def audit(found: Lab) -> list[dict[str, Any]]:
    text = "".join(file.read_text() for file in (found.gateway.data_dir / "audit").iterdir())
    return [line for line in map(json.loads, text.splitlines()) if line["what"] == "dlq.replay"]


def facts(page: Page, name: str) -> Any:
    return page.locator(".fact", has=page.get_by_text(name, exact=True)).locator(".value")


@pytest.mark.spec("CO-40")
def test_from_down_for_an_hour_to_all_seen_delivered(page: Page, shared: Lab) -> None:
    events = [{"id": f"hour-{n}", "type": "order.paid", "data": {"n": n, "text": "é\u2028"}} for n in range(120)]
    shared.down(*events)
    sent = Counter(request.body for request in shared.bad.requests)
    shared.bad.requests.clear()
    shared.bad.answer = 202
    page.get_by_role("link", name="Dead letters", exact=True).click()
    expect(facts(page, "Dead letters")).to_have_text("120")
    expect(page.get_by_label("Groups of dead letters").get_by_role("row")).to_have_count(2)
    assert violations(page) == []
    page.get_by_role("button", name="Replay the 120 of billing").click()
    expect(facts(page, "State")).to_have_text("done")
    expect(facts(page, "Delivered")).to_have_text("120 of 120")
    row = page.get_by_role("row").filter(has_text="billing")
    expect(row.get_by_role("cell").nth(1)).to_have_text("120")
    expect(row.get_by_role("cell").nth(2)).to_have_text("0")
    assert violations(page) == []
    assert shared.dead_letters() == []
    assert Counter(request.body for request in shared.bad.wait_for(120)) == sent
    last = audit(shared)[-1]
    assert (last["who"], last["result"], last["replayed"], last["left"]) == ("admin token", "done", 120, 0)


@pytest.mark.spec("CO-43")
def test_what_fails_again_stays_a_dead_letter(shared: Lab) -> None:
    shared.down({"id": "again", "type": "order.paid"})
    bury(shared, file_of(shared).read_bytes().rstrip(), letter(1, tidegatestage="decode"))
    first = shared.dead_letters()
    done = ended(shared, replay(shared, all=True))
    assert (done["state"], done["refused"], done["skipped"], done["left"]) == ("failed", 1, 1, 2)
    assert shared.dead_letters() == first
    assert audit(shared)[-1]["result"] == "failed"


@pytest.mark.spec("CO-41")
def test_a_replay_is_cancelled(page: Page, shared: Lab) -> None:
    bury(shared, *(letter(n) for n in range(200)))
    shared.bad.requests.clear()
    shared.bad.answer = 202
    page.goto(f"{shared.url}/dead-letters?trigger=billing")
    page.get_by_label("Events per second").fill("10")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Replay selected").click()
    shared.bad.wait_for(4)
    page.get_by_role("button", name="Cancel").click()
    expect(facts(page, "State")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    done = shared.gateway.admin("/api/v1/replays").json()["items"][-1]
    left = {row["event_id"] for row in shared.dead_letters()}
    sent = {request.headers["ce-id"] for request in shared.bad.wait_for(done["accepted"])}
    assert 4 <= len(sent) < 200
    assert sent | left == {str(n) for n in range(200)}
    assert not sent & left


@pytest.mark.spec("CO-41", "CO-43")
@pytest.mark.area(name="console")
def test_one_is_edited_and_stays_until_it_is_delivered(page: Page, shared: Lab) -> None:
    shared.down({"id": "wrong", "type": "order.paid", "data": {"amount": -1}})
    page.goto(f"{shared.url}/dead-letters")
    page.get_by_role("link", name="wrong").click()
    expect(page.get_by_label("Data")).to_contain_text("-1")
    page.get_by_role("button", name="What would be sent now?").click()
    expect(page.get_by_label("trigger billing").get_by_label("Body")).to_contain_text('"amount":')
    assert violations(page) == []
    address = page.url
    for answer, state in ((422, "failed"), (202, "done")):
        shared.bad.answer = answer
        page.goto(f"{address}/edit")
        text = page.get_by_label("Event")
        text.fill(text.input_value().replace("-1", "1"))
        page.get_by_role("button", name="Show the difference").click()
        expect(page.get_by_label("Differences").locator(".added")).to_contain_text('"amount": 1')
        assert violations(page) == []
        page.get_by_role("button", name="Send the edited event").click()
        expect(facts(page, "State")).to_have_text(state)
        expect(facts(page, "Delivered")).to_have_text("1 of 1" if answer == 202 else "0 of 1")
        if answer == 422:
            expect(page.get_by_text("trigger billing still fails: 422")).to_be_visible()
            kept = [line_format.read(line)[1].data for line in file_of(shared).read_bytes().splitlines()]
            assert [json.loads(data or b"") for data in kept] == [{"amount": -1}]
    assert json.loads(shared.bad.requests[-1].body) == {"amount": 1}
    assert shared.dead_letters() == []
    text_of = page.goto(f"{address}")
    assert text_of is not None
    assert text_of.status == 404


@pytest.mark.spec("CO-43")
def test_a_viewer_only_looks(browser: Browser, shared: Lab) -> None:
    bury(shared, letter(1))
    with opened(browser, shared, log_in=False) as page:
        page.goto(f"{shared.url}/dead-letters")
        page.get_by_label("Token").fill(shared.token("viewer"))
        page.get_by_role("button", name="Log in").first.click()
        expect(page.get_by_label("Groups of dead letters")).to_contain_text("billing")
        assert page.get_by_role("button", name="Replay").count() == 0
        page.get_by_role("link", name="1", exact=True).click()
        expect(page.get_by_label("Data")).to_contain_text('"n": 1')
        assert page.get_by_role("button", name="Replay").count() == 0
        assert page.get_by_role("link", name="Edit").count() == 0
        page.goto(f"{page.url}/edit")
        expect(page.get_by_role("alert")).to_contain_text("role admin")


@pytest.mark.spec("CO-31")
def test_hostile_content_is_text(page: Page, shared: Lab) -> None:
    answer = b64encode(HOSTILE.encode()).decode()
    odd = {"type": HOSTILE, "source": HOSTILE, "tidegatereason": HOSTILE, "tidegatetrigger": HOSTILE}
    bury(shared, letter(7, id=HOSTILE, knativeerrordata=answer, **odd))
    page.goto(f"{shared.url}/dead-letters")
    page.get_by_role("link", name=HOSTILE).last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.get_by_label("Answer", exact=True)).to_have_text(HOSTILE)
    assert page.locator("main script").count() == 0
    page.get_by_role("button", name="What would be sent now?").click()
    expect(page.locator("#tried")).to_be_attached()


@pytest.mark.spec("CO-42")
@pytest.mark.area(name="console")
def test_ten_thousand_are_listed_and_replayed(shared: Lab) -> None:
    key = Keys([bytes(32)])
    plain = [letter(n, tidegatetrigger=f"trigger-{n % 80}") for n in range(9_999)]
    closed = line_format.write(Event({"specversion": "1.0", "id": "closed"}), NOW_NS, key)
    bury(shared, *plain, letter(9_999), closed)
    shared.bad.requests.clear()
    shared.bad.answer = 202
    page = shared.gateway.admin("/console/dead-letters")
    assert len(page.content) < 200_000
    assert "10,000" in page.text
    assert "1 dead letters can&#39;t be read" in page.text
    assert "31 smaller groups are not shown" in page.text
    one = shared.gateway.admin("/console/dead-letters?trigger=trigger-7&skip=100").text
    assert "101 to 125 of 125" in one
    done = ended(shared, replay(shared, all=True, rate=0, all_triggers=True, count=10_000))
    assert (done["state"], done["accepted"], done["left"]) == ("done", 10_000, 0)
    shared.gateway.wait_until(lambda: len(shared.bad.requests) == 10_000, what="all delivered")
    assert {int(request.headers["ce-id"]) for request in shared.bad.requests} == set(range(10_000))
    assert file_of(shared).read_bytes() == closed + b"\n"


def amid_a_replay(shared: Lab, of: int, rate: int, seen: int) -> None:
    """Begins to replay so many dead letters, until the subscriber has seen some."""
    bury(shared, *(letter(n) for n in range(of)))
    shared.bad.requests.clear()
    shared.bad.answer = 202
    replay(shared, all=True, rate=rate)
    shared.bad.wait_for(seen)


@pytest.mark.spec("CO-41")
def test_a_crash_during_a_replay_loses_nothing(shared: Lab) -> None:
    amid_a_replay(shared, of=300, rate=100, seen=30)
    shared.gateway.kill()
    assert len(file_of(shared).read_bytes().splitlines()) > 0
    shared.gateway.start()
    assert ended(shared, replay(shared, all=True, rate=0))["left"] == 0
    everything = {str(n) for n in range(300)}
    shared.gateway.wait_until(lambda: seen(shared) == everything, what="all delivered")
    assert shared.dead_letters() == []


@pytest.mark.spec("CO-41")
def test_a_stop_of_the_gateway_ends_a_replay(shared: Lab) -> None:
    amid_a_replay(shared, of=100, rate=10, seen=4)
    assert shared.gateway.stop() == 0
    assert (audit(shared)[-1]["state"], audit(shared)[-1]["result"]) == ("stopped", "failed")
    left = {line_format.read(line)[1].attributes["id"] for line in file_of(shared).read_bytes().splitlines()}
    shared.gateway.start()
    shared.gateway.wait_until(lambda: len(seen(shared) | left) == 100, what="what was sent before")
    assert left
    assert not seen(shared) & left


HIDING = """
brokers:
  default:
    ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]
    dead_letter: {{deadletter: {{encrypt: {{keys: ["{key}"]}}}}}}
triggers:
  billing: {{broker: default, delivery: {{retry: 0}}, subscriber: {{http: {{url: "{bad}"}}}}}}
console: {{hide: {{data: true, attributes: [source, subject]}}}}
"""


@pytest.mark.spec("CO-42", "CO-43")
def test_encrypted_ones_are_replayed_and_what_is_hidden_stays_hidden(tmp_path: Path, processes: None) -> None:
    with lab(tmp_path, HIDING, key=bytes(range(32)).hex()) as found:
        found.down({"id": "closed", "source": "/ours", "data": "card 4711"})
        assert b"4711" not in file_of(found).read_bytes()
        (row,) = found.dead_letters()
        headers = found.headers("operator")
        for path in ("", f"/{row['id']}"):
            page = web.get(f"{found.url}/dead-letters{path}", headers=headers, verify=False).raise_for_status()
            assert "closed" in page.text
            assert "(hidden)" in page.text
            assert not any(word in page.text for word in ("4711", "/ours"))
        tried = web.post(f"{found.url}/dead-letters/{row['id']}/try", headers=headers, verify=False)
        assert (tried.status_code, "4711" in tried.text) == (403, False)
        assert "4711" in found.gateway.admin(f"/console/dead-letters/{row['id']}").text
        found.bad.answer = 202
        started = web.post(
            f"{found.gateway.admin_url}/api/v1/replays", json={"ids": [row["id"]]}, headers=headers, verify=False
        )
        assert ended(found, started.raise_for_status().json()["id"])["left"] == 0
        assert found.bad.wait_for(2)[-1].body == b'"card 4711"'
        assert found.dead_letters() == []


def seen(found: Lab) -> set[Any]:
    """The ids that the subscriber got."""
    return {request.headers["ce-id"] for request in [*found.bad.requests]}


def replay(found: Lab, **wanted: Any) -> str:
    """Starts a replay by the API."""
    return str(found.post("/api/v1/replays", json=wanted).raise_for_status().json()["id"])


def ended(found: Lab, id_: str) -> dict[str, Any]:
    """A replay once it has ended."""

    def now() -> dict[str, Any]:
        document: dict[str, Any] = found.gateway.admin(f"/api/v1/replays/{id_}").json()
        return document

    found.gateway.wait_until(lambda: now()["state"] not in ("waiting", "running"), what="the end of a replay")
    return now()


@pytest.mark.spec("SAFE-91")
def test_all_triggers_only_after_a_confirmation_with_the_count(page: Page, shared: Lab) -> None:
    """The form says how many events would go to whom, and the gateway sends nothing unless that number is confirmed."""
    bury(shared, *(letter(n) for n in range(41, 44)))  # whose events nobody has delivered since
    shared.bad.answer = 202
    headers = shared.headers("operator")
    before = len(shared.gateway.admin("/api/v1/replays").json()["items"])
    for confirm in ({}, {"confirm": "2"}):
        form = {"to": "all", "rate": "0", **confirm}
        answer = web.post(f"{shared.url}/replays", data=form, headers=headers, verify=False)
        assert (answer.status_code, "3 events would go to all triggers that match" in answer.text) == (409, True)
    assert len(shared.gateway.admin("/api/v1/replays").json()["items"]) == before
    page.goto(f"{shared.url}/dead-letters")
    page.get_by_text("Replay to all triggers").first.click()
    expect(page.get_by_label("Send 3 events to all triggers that match")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("Send 3 events to all triggers that match").check()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Replay to all triggers").click()
    expect(facts(page, "State")).to_have_text("done")
    expect(page.get_by_text("to all triggers that match")).to_be_visible()


@pytest.mark.spec("SAFE-93")
def test_the_stock_is_what_the_files_hold_and_the_flow_what_fails(shared: Lab) -> None:
    """The overview and the page of a trigger count the dead letters that exist, not those since the start; attempts
    that are rejected for good have failed."""
    bury(shared, *(letter(n) for n in range(7)), letter(8, tidegatetrigger="orders"))

    def shown(path: str, wanted: str) -> None:
        def there() -> bool:
            return wanted in " ".join(shared.gateway.admin(f"/console{path}").text.split())

        shared.gateway.wait_until(there, 20.0, what=f"{wanted} at {path}")

    def fact(name: str, value: str) -> str:
        return f'{name}</span> <span class="value">{value}<'

    shown("/triggers/billing", fact("Dead letters", "7"))
    shown("", 'data-live="dead gateway">8<')
    bury(shared, letter(1))
    shown("/triggers/billing", fact("Dead letters", "1"))
    shared.gateway.kill()
    shared.gateway.start()
    shown("/triggers/billing", fact("Dead letters", "1"))
    shown("/triggers/orders", fact("Dead letters", "0"))
