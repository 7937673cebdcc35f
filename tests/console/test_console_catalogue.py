"""The catalogue: what came in, what its data look like, who wants it, and the same for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway_console.catalogue.catalogue import MOST_TYPES, Catalogue
from gateway_console.catalogue.counter import MOST_KEYS, SAMPLES_OF_A_TYPE, Counter
from gateway_schema.inferred import MOST_FIELDS, Budget, Shape
from jsonschema import Draft202012Validator
from playwright.sync_api import Page, expect
from ruamel.yaml import YAML

from gateway_core.contract.event import Event
from tests import web
from tests.console.axe import violations
from tests.console.lab import CONFIG, Lab, lab
from tests.ledger import free_port

HIDES = """
  shops:
    broker: default
    filters: [{{suffix: {{source: /none}}}}]
    subscriber: {{http: {{url: "{good}"}}}}
console:
  hide: {{data: true, attributes: [source], below: operator}}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Lab]:
    """A gateway of two workers that hides data from viewers."""
    config = CONFIG.replace("127.0.0.1:0", f"127.0.0.1:{free_port()}") + HIDES  # workers share it
    with lab(tmp_path_factory.mktemp("catalogue"), config, ("--workers", "2")) as found:
        yield found


def order(number: int) -> dict[str, Any]:
    data = {"amount": number + 0.5 * (number % 2), "currency": ("EUR", "USD")[number % 2], "lines": [{"sku": "a"}]}
    return {
        "id": f"o{number}",
        "source": f"/shops/{number % 3}",
        "time": "2026-01-01T00:00:00Z",
        "datacontenttype": "application/json",
        "data": data if number % 4 else {**data, "note": "gift"},
    }


def ask(shared: Lab, path: str, role: str = "viewer") -> httpx.Response:
    return web.get(f"{shared.url}{path}", headers=shared.headers(role), verify=False, timeout=60)


@pytest.mark.spec("CO-70")
@pytest.mark.area(name="console")
def test_types_and_sources_are_seen_in_all_workers(page: Page, shared: Lab) -> None:
    shared.send({"id": "before", "type": "from.before", "source": "/x"})
    page.goto(f"{shared.url}/catalogue")
    expect(page.get_by_role("rowheader", name="from.before")).to_be_visible()
    expect(page.get_by_text("and 1 from the channel before")).to_be_visible()
    expect(page.get_by_text("2 of 2 workers")).to_be_visible()
    for number in range(40):  # each over a connection of its own: they come to both workers
        shared.send(order(number))
    shared.send({"id": "<b>1</b>", "type": "<i>hostile</i>", "source": "/x"})
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="order.created", exact=True)).first
    expect(row.get_by_role("cell").nth(3)).to_have_text("40")
    expect(row.get_by_role("cell").nth(5)).to_have_text("2")
    hostile = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="<i>hostile</i>"))
    expect(hostile).to_contain_text("nobody")
    expect(page.get_by_role("region", name="Sources")).to_contain_text("/shops/2")
    page.get_by_role("link", name="order.created", exact=True).first.click()
    schema = page.get_by_role("region", name="Schema")
    expect(schema.get_by_role("row").filter(has_text="amount")).to_contain_text("number")
    expect(schema.get_by_role("row").filter(has_text="lines[].sku")).to_contain_text("yes")
    expect(schema.get_by_role("row").filter(has_text="note")).to_contain_text("no")
    wanted = page.get_by_role("region", name="Triggers")
    expect(wanted.get_by_role("row").filter(has_text="billing")).to_contain_text("wants it")
    expect(page.get_by_label("Data", exact=True)).to_contain_text('"sku": "a"')
    assert violations(page) == []


@pytest.mark.spec("CO-71")
def test_exports(page: Page, shared: Lab) -> None:
    page.goto(f"{shared.url}/catalogue")
    for number in range(100, 130):
        shared.send(order(number))
    link = page.get_by_role("link", name="order.created", exact=True).first
    expect(link).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="AsyncAPI (JSON)").click()
    document = json.loads(download.value.path().read_text())
    conforms(document)
    assert "type is " in ask(shared, "/catalogue/type?type=order.created", "admin").text
    assert "source is " in ask(shared, "/catalogue/type?type=order.created", "admin").text
    message = document["components"]["messages"]["order.created"]
    assert message["headers"]["properties"]["ce-type"] == {"type": "string", "const": "order.created"}
    assert "ce-id" in message["headers"]["required"]
    assert message["payload"]["properties"]["currency"]["type"] == "string"
    assert message["examples"][0]["payload"]["lines"] == [{"sku": "a"}]
    written = YAML(typ="safe").load(ask(shared, "/catalogue/asyncapi.yaml", "admin").text)
    assert written["components"]["messages"].keys() == document["components"]["messages"].keys()

    schema = ask(shared, "/catalogue/schema.json?type=order.created", "admin").json()
    Draft202012Validator.check_schema(schema)
    assert not list(Draft202012Validator(schema).iter_errors(order(4)["data"]))
    assert list(Draft202012Validator(schema).iter_errors({"amount": "much"}))
    assert ask(shared, "/catalogue/schema.json?type=unheard-of", "admin").status_code == 404

    assert ask(shared, "/catalogue/schema.json?type=order.created").status_code == 403
    hidden = ask(shared, "/catalogue/asyncapi.json")
    assert "payload" not in hidden.json()["components"]["messages"]["order.created"]
    for path in ("/catalogue", "/catalogue/type?type=order.created", "/catalogue/asyncapi.json"):
        told = ask(shared, path).text
        assert "order.created" in told
        assert not [word for word in ("EUR", "gift", "/shops/", "currency") if word in told], path


def conforms(document: dict[str, Any]) -> None:
    """What AsyncAPI 3.0.0 asks of the objects in this document."""
    assert document["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= document["info"].keys()
    for server in document["servers"].values():
        assert server["host"]
        assert server["protocol"]
    references = [
        *(message for channel in document["channels"].values() for message in channel["messages"].values()),
        *(server for channel in document["channels"].values() for server in channel.get("servers", [])),
        *(operation["channel"] for operation in document["operations"].values()),
        *(message for operation in document["operations"].values() for message in operation["messages"]),
    ]
    for reference in references:
        at: Any = document
        for step in reference["$ref"].removeprefix("#/").split("/"):
            at = at[step]
    assert {operation["action"] for operation in document["operations"].values()} == {"receive"}
    for message in document["components"]["messages"].values():
        Draft202012Validator.check_schema(message["headers"])
        Draft202012Validator.check_schema(message.get("payload", {}))
        for example in message.get("examples", []):
            Draft202012Validator(message["headers"]).validate(example["headers"])
            Draft202012Validator(message["payload"]).validate(example["payload"])


@pytest.mark.spec("CO-70")
def test_a_shape_says_only_what_is_sure() -> None:
    shape = Shape(Budget())
    for number in range(12):
        day = "2026-02-30" if number == 3 else f"2026-01-{number + 1:02}"  # there is no such day
        shape.see({"day": day, "at": "2026-02-03T04:05:06Z", "state": ("on", "off")[number % 2], "n": number or None})
    found = shape.schema()["properties"]
    assert found == {
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string"},
        "n": {"type": ["integer", "null"]},
        "state": {"type": "string", "enum": ["off", "on"]},
    }
    shape.see({str(number): {"deep": number} for number in range(10 * MOST_FIELDS)})
    assert shape.budget.cut
    assert len(shape.schema()["properties"]) == MOST_FIELDS
    assert "required" not in shape.schema()


@pytest.mark.spec("CO-70")
def test_types_of_cloudevents_0_1_that_come_together_are_told_apart() -> None:
    counter = Counter()
    events = [Event({"eventID": str(n), "eventType": f"old.{n % 2}", "source": "/x"}, b"{}") for n in range(5)]
    counter.accepted("default", [*events, Event({"id": "5", "type": "new", "source": "/x"}, b"{}")])
    assert {type_: count for _, type_, _, count, _ in counter.take().counts} == {"old.0": 3, "old.1": 2, "new": 1}


@pytest.mark.spec("CO-70")
def test_what_is_kept_is_bounded() -> None:
    counter, catalogue = Counter(), Catalogue(0)
    many = [Event({"id": "1", "type": f"t{n}", "source": "/x"}, b"{}", True) for n in range(MOST_KEYS + 10)]
    counter.accepted("default", [*many, Event({"id": "1", "type": "t" * 10_000, "source": "/x"})])
    counter.accepted("default", many[:1] * 1000)
    seen = counter.take()
    assert seen.others == 11
    assert seen.counts[0][3] == 1001
    assert len([event for _, _, _, event in seen.samples if event["type"] == "t0"]) <= SAMPLES_OF_A_TYPE
    catalogue.feed(seen)
    assert len(catalogue.types) == MOST_TYPES
    assert sum(each.count for each in catalogue.types.values()) + catalogue.others == MOST_KEYS + 1011
    assert counter.take() == ([], [], 0)
