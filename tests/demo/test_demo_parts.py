"""The demo's parts: flights as events, events as requests, the sender and the failing subscriber."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gateway_demo import flights, sensors, wire
from gateway_demo.flights import FlightEvent
from gateway_demo.processes import Subscriber
from gateway_demo.progress import Meter
from gateway_demo.run import remaining
from gateway_demo.sender import Sender
from gateway_demo.subscriber import undeliverable, verdict
from gateway_testing import Subscriber as ScriptedServer
from rich.console import Console

from gateway_core.contract.status import GatewayStatus, TriggerStatus
from tests import web

pytestmark = pytest.mark.anyio


def event(n: int, subject: str = "N1") -> FlightEvent:
    attributes = {
        "specversion": "1.0",
        "id": f"e{n}",
        "source": "/airport/EWR",
        "type": flights.DEPARTED,
        "subject": subject,
        "datacontenttype": "application/json",
    }
    return FlightEvent(attributes, b'{"n": %d}' % n)


@pytest.mark.parametrize(
    ("row", "type"),
    [
        ({"dep_time": 517, "dep_delay": 2, "arr_delay": 11}, flights.DEPARTED),
        ({"dep_time": 517, "dep_delay": 59, "arr_delay": 11}, flights.DEPARTED),
        ({"dep_time": 517, "dep_delay": 60, "arr_delay": 11}, flights.LATE),
        ({"dep_time": 517, "dep_delay": 600, "arr_delay": None}, flights.DIVERTED),
        ({"dep_time": None, "dep_delay": None, "arr_delay": None}, flights.CANCELLED),
    ],
)
def test_a_row_says_what_happened(row: dict[str, int | None], type: str) -> None:
    assert flights.what_happened(row) == type


@pytest.mark.usefixtures("real_time")
def test_flights_are_the_real_ones_and_stay_as_bad_as_they_are() -> None:
    found = list(flights.flight_events(3000))
    assert len(found) == len({e.id for e in found}) == 3000
    rows = [msgspec.json.decode(e.data) for e in found]
    assert {r["month"] for r in rows} == set(range(1, 13)), "spread over the year"
    assert {r["origin"] for r in rows} == {"EWR", "JFK", "LGA"}
    for e, row in zip(found, rows, strict=True):
        assert e.without_subject == (row["tailnum"] is None)
        assert e.attributes["source"] == f"/airport/{row['origin']}"
        assert e.attributes["partitionkey"] == row["carrier"]
        assert (e.type == flights.CANCELLED) == (row["dep_time"] is None)
    assert any(e.without_subject for e in found)
    assert any(r["air_time"] is None for r in rows), "gaps stay null"
    assert all(isinstance(r["dep_delay"], int | None) for r in rows)


def test_requests_are_in_all_modes_and_hold_every_event_once() -> None:
    events = [event(n, subject="" if n % 7 == 0 else "N1") for n in range(1000)]
    made = list(wire.requests(events, "h:1", "/in"))
    assert sorted(e.id for r in made for e in r.events) == sorted(e.id for e in events)
    kinds = {"application/json": 0, "application/cloudevents+json": 0, "application/cloudevents-batch+json": 0}
    for r in made:
        head, _, body = r.raw.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        assert lines[0] == "POST /in HTTP/1.1"
        assert int(headers["content-length"]) == len(body)
        kinds[headers["content-type"]] += len(r.events)
        if headers["content-type"] == "application/json":
            assert (headers["ce-id"], body) == (r.events[0].id, r.events[0].data)
        else:
            assert all(e.data in body and e.id.encode() in body for e in r.events), "data bytes as they are"
    assert all(kinds.values())


async def test_the_sender_asks_again_and_notes_every_answer() -> None:
    # overloaded, gone without an answer, refused, and one that nobody expects
    answers: list[Any] = [(503, {}, b""), None, (400, {}, b'{"detail":"no"}'), (418, {}, b"tea")]
    with ScriptedServer(answers) as server:
        ledger = await Sender(server.url + "in").send(iter([event(n) for n in range(60)]))
    assert len(ledger.accepted) == 58
    assert len(ledger.refused) == 1
    assert ledger.refusal == '{"detail":"no"}'
    assert len(ledger.surprises) == 1
    assert "418" in ledger.surprises[0]
    assert len(ledger.resent) >= 1
    assert ledger.sent == 60


@pytest.mark.usefixtures("processes")
def test_the_subscriber_fails_by_rule_and_keeps_the_books(tmp_path: Path) -> None:
    ids = [f"e{n}" for n in range(400)]
    with Subscriber(tmp_path / "book.json") as subscriber, web.client(trust_env=False, verify=False) as client:
        for id in ids:
            for attempt in (1, 2):
                answer = client.post(subscriber.url, headers={"ce-id": id}, content=id.encode())
                assert answer.status_code == verdict(id, attempt)
        book = subscriber.finish()
    assert set(book) == set(ids)
    assert {id for id, row in book.items() if row[1] == 0} == {id for id in ids if undeliverable(id)} != set()
    assert {verdict(id, 1) for id in ids} == {202, 422, 503}
    assert any(verdict(id, 1) == 503 and verdict(id, 2) == 202 for id in ids)


@pytest.mark.spec("CO-93")
@pytest.mark.usefixtures("processes")
def test_a_mended_subscriber_accepts_everything(tmp_path: Path) -> None:
    (dead,) = [f"e{n}" for n in range(400) if undeliverable(f"e{n}")][:1]
    with Subscriber(tmp_path / "book.json") as subscriber, web.client(trust_env=False, verify=False) as client:
        failed = verdict(dead, 1)
        assert client.post(subscriber.url, headers={"ce-id": dead}).status_code == failed
        assert subscriber.fix() == {dead: (1, 0, "")}
        assert client.post(subscriber.url, headers={"ce-id": dead}).status_code == 202
        assert subscriber.finish() == {dead: (1, 0, "")}, "the books are closed"


def test_progress_is_plain_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with Meter(Console(file=out), "sending", 1000) as meter:
        meter.at(400)
        meter.at(1000)
    assert out.getvalue().startswith("  sending    1,000 of 1,000")
    assert "\x1b" not in out.getvalue()


def test_progress_is_a_bar_on_a_terminal() -> None:
    out = io.StringIO()
    with Meter(Console(file=out, force_terminal=True, width=100), "sending", 1000) as meter:
        meter.at(1000)
    assert "1000/1000" in out.getvalue()
    assert "events/s" in out.getvalue()


def test_remaining_counts_what_triggers_and_readers_have_not_dealt_with() -> None:
    def status(lag: int | None = 0, in_flight: int = 0, waiting: int = 0) -> GatewayStatus:
        trigger = TriggerStatus(name="t", broker="b", lag=lag, in_flight=in_flight, waiting=waiting)
        return GatewayStatus("1", triggers=[TriggerStatus(name="u", broker="b", lag=0), trigger])

    assert remaining(status()) == 0
    assert remaining(status(lag=3)) == 3
    assert remaining(status(in_flight=1, waiting=2)) == 3
    assert remaining(status(lag=None)) == 1


@pytest.mark.slow
def test_readings_are_events_of_sensors() -> None:
    found = list(sensors.readings(500))
    assert len({event.id for event in found}) == len(found) == 500
    assert [event.attributes["time"] for event in found] == sorted(event.attributes["time"] for event in found)
    for event in found:
        row = msgspec.json.decode(event.data)
        assert sensors.topic(event) == f"sensors/{row['airport']}/{row['quantity']}"
        assert (event.type == sensors.FROST) == (row["quantity"] == "temp" and row["value"] <= 32)
    assert {event.type for event in found} == {sensors.READING, sensors.FROST}
