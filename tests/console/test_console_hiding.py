"""What `hide` keeps from readers of the console: no header and no clause says it in other words."""

from __future__ import annotations

import json

import pytest
from gateway_api.roles import Role
from gateway_console.config import HIDDEN, HideConfig
from gateway_console.explained import without_values
from gateway_console.origins import shown
from gateway_inspect.explain import clause_json

from gateway_core.contract.interfaces import Clause

pytestmark = [pytest.mark.pure, pytest.mark.spec("SAFE-92")]

DATA = {"card": "4111-2222", "name": "Erika"}
DOCUMENT = {"specversion": "1.0", "id": "1", "source": "/ours", "type": "t", "data": DATA}
HEADERS = [
    ("host", "gateway"),
    ("content-type", "application/json"),
    ("user-agent", "shop/4111-2222"),
    ("x-request-id", "4111-2222"),
    ("ce-id", "1"),
    ("ce-note", "4111-2222"),
    ("x-payload", json.dumps(DATA)),
    ("x-card", "4111"),
    ("x-hub-signature-256", "sha256=00"),
    ("content-digest", "sha-256=:AA=:"),
    ("traceparent", "00-1-2-01"),
]


def told(hides: HideConfig, role: Role | None = "viewer") -> dict[str, str]:
    return dict(shown(HEADERS, DOCUMENT, hides, role))


def test_a_header_that_may_repeat_hidden_data_is_hidden() -> None:
    seen = told(HideConfig(data=True))
    visible = {name for name, value in seen.items() if value != HIDDEN}
    assert visible == {"host", "content-type", "ce-id", "traceparent"}


def test_who_may_see_the_data_sees_the_headers() -> None:
    assert told(HideConfig(data=True), "admin") == dict(HEADERS)
    assert told(HideConfig(attributes=["subject"])) == dict(HEADERS)


@pytest.mark.parametrize(
    "text",
    ["exact source: '/ours'", "source = '/ours' AND type = 't'", "prefix SOURCE: '/o'", "EXISTS source"],
)
def test_a_clause_about_a_hidden_attribute_says_nothing_of_it(text: str) -> None:
    clause = {"text": text, "matched": True, "found": "source is '/ours'", "parts": [{"text": text, "matched": True}]}
    hides = HideConfig(attributes=["source"])
    kept = without_values(clause, hides, "viewer")
    assert kept == {"text": HIDDEN, "matched": True, "parts": [{"text": HIDDEN, "matched": True}]}
    other = {"text": "exact datasource: 'x'", "matched": False, "found": "…"}
    assert without_values(other, hides, "viewer") == {"text": "exact datasource: 'x'", "matched": False}
    assert without_values(clause, hides, "admin")["text"] == text


@pytest.mark.spec("FILT-07")
def test_a_clause_about_hidden_data_says_nothing_of_it() -> None:
    inner = Clause('data card: "4111"', True, 'card is "4111"', data=True)
    clause = clause_json(Clause("all", True, parts=(inner, Clause("exact type: 't'", True, "type is 't'"))))
    kept = without_values(clause, HideConfig(data=True), "viewer")
    assert kept["parts"] == [{"text": HIDDEN, "matched": True}, {"text": "exact type: 't'", "matched": True}]
    assert without_values(clause, HideConfig(attributes=["x"]), "viewer")["parts"][0]["text"] == inner.text
