"""What a response to a batch says of single events, and what is not clear from it."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from gateway_http.batch_responses import BatchResponses
from gateway_http.outcome import ResponseClassifier
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

JSON = [(b"content-type", b"application/json")]
SINGLE = ResponseClassifier(None, False, "http://s.example/", secrets=[b"geheimes"])  # type: ignore[arg-type]
RESPONSES = BatchResponses(SINGLE, [b"geheimes"])


def events(*names: str) -> list[Event]:
    """Events by "id" or "id@source"."""
    parts = [name.partition("@") for name in names]
    return [Event({"specversion": "1.0", "id": id, "source": source or "/s", "type": "t"}) for id, _, source in parts]


def item(name: str, status: Any) -> dict[str, Any]:
    id, _, source = name.partition("@")
    return {"id": id, "status": status} | ({"source": source} if source else {})


def outcomes(of: list[Event], body: bytes, code: int = 207, headers: Any = JSON) -> list[Outcome]:
    return RESPONSES.outcomes(RESPONSES.classify(code, headers, body), of)


def body(*items: dict[str, Any]) -> bytes:
    return json.dumps({"items": items}).encode()


@pytest.mark.spec("BATCH-08", "BATCH-09")
@pytest.mark.parametrize(
    ("names", "items", "codes"),
    [
        (["1", "2"], [("2", 422), ("1", 204)], [204, 422]),  # in any order
        (["1@/a", "1@/b"], [("1@/b", 422), ("1@/a", 204)], [204, 422]),
        (["1@/a", "1@/b"], [("1@/b", 422), ("1", 204)], [204, 422]),
        (["1@/a", "1@/b"], [("1", 204), ("1", 422)], [204, 422]),  # as many: in order
        (["1@/a", "1@/b"], [("1", 204)], [207, 207]),  # which one?
        (["1", "1"], [("1", 204)], [204, 204]),  # the same event
        (["1", "1"], [("1", 204), ("1", 422)], [204, 422]),
        (["1"], [("1", 204), ("1", 204)], [204]),
        (["1"], [("1", 204), ("1", 422)], [207]),  # a contradiction
        (["1@/a"], [("1@/b", 204)], [207]),
        (["1"], [("2", 204)], [207]),
        (["1", "2"], [("1", "204"), ("2", "404")], [204, 404]),
    ],
)
def test_items_belong_to_their_events(names: list[str], items: list[tuple[str, Any]], codes: list[int]) -> None:
    found = outcomes(events(*names), body(*(item(*one) for one in items)))
    assert [one.code for one in found] == codes
    assert [one.delivered for one in found] == [code == 204 for code in codes]
    assert [one.retry for one in found] == [code in (207, 404) for code in codes]


@pytest.mark.spec("BATCH-09")
@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[]", b"{}", b'{"items": {}}', b'{"items": [[]]}', b'{"items": [{"id": "1"}]}', b"\xff\xfe",
        b'{"items": [{"status": 204}]}', b'{"items": [{"id": 1, "status": 204}]}', b"[" * 200_000,
        b'{"items": [{"id": "1", "status": true}]}', b'{"items": [{"id": "1", "status": 99}]}',
        b'{"items": [{"id": "1", "status": 600}]}', b'{"items": [{"id": "1", "status": "20"}]}',
        '{"items": [{"id": "1", "status": "²04"}]}'.encode(), b'{"items": [{"id": "1", "status": 204.5}]}',
        b'{"items": [{"id": "1", "status": 204}, {"id": "1"', b'{"items": [{"id": "1", "status": 1e400}]}',
        b'{"items": [{"id": "1", "status": %s}]}' % (b"9" * 5000), b'{"items": [' + b'{"a":' * 100_000,
        b'{"items": [{"id": "1", "status": 204}], "\xff": 0}',
    ],
)  # fmt: skip
def test_a_207_that_can_not_be_read_fails_all_for_now(text: bytes) -> None:
    for one in outcomes(events("1", "2"), text):
        assert (one.delivered, one.retry, one.code) == (False, True, 207)
        assert one.reason.startswith("207 Multi-Status with a body that can't be read: ")
    assert all(one.delivered for one in outcomes(events("1", "2"), text, 200))


@pytest.mark.spec("BATCH-09")
def test_a_207_that_is_cut_or_has_an_unknown_coding_fails_all_for_now() -> None:
    good = body(item("1", 204))
    (cut,) = RESPONSES.outcomes(RESPONSES.classify(207, JSON, good, True), events("1"))
    (coded,) = outcomes(events("1"), good, headers=[*JSON, (b"content-encoding", b"br")])
    (zipped,) = outcomes(events("1"), gzip.compress(good), headers=[*JSON, (b"content-encoding", b"gzip")])
    assert (cut.delivered, coded.delivered, zipped.delivered) == (False, False, True)
    assert (cut.retry, coded.retry) == (True, True)


@pytest.mark.spec("BATCH-08")
@pytest.mark.parametrize(
    ("type", "read"),
    [
        ("application/json; charset=utf-8", True),
        ("Application/Problem+JSON", True),
        ("text/plain", False),
        (None, False),
    ],
)
def test_another_2xx_is_read_if_it_is_json(type: str | None, read: bool) -> None:
    headers = [(b"content-type", type.encode())] if type else []
    found = outcomes(events("1", "2"), body(item("2", 422)), 202, headers)
    assert [one.code for one in found] == [202, 422 if read else 202]


@pytest.mark.spec("HM-16")
def test_a_status_brings_no_secret_back() -> None:
    text = body({"id": "1", "status": 422, "description": "not with geheimes"}, {"id": "2", "status": 500})
    for found in (*outcomes(events("1", "3"), text), *outcomes(events("1"), text + b"}")):
        assert b"geheim" not in (found.data or b"")
        assert b"****" in (found.data or b"")


def test_the_outcome_of_a_batch_of_one() -> None:
    assert RESPONSES.classify_one(207, JSON, body(item("1", 422))).code == 422
    assert RESPONSES.classify_one(207, JSON, body()).retry
    assert RESPONSES.classify_one(207, JSON, b"no").retry
    assert RESPONSES.classify_one(204, [], b"").delivered
    assert RESPONSES.classify_one(503, [], b"").retry


names = st.sampled_from(["1", "2", "3", "1@/a", "1@/b", "2@/b"])
statuses = st.integers(200, 599)


@pytest.mark.spec("BATCH-08")
@given(st.lists(names, min_size=1, max_size=6, unique=True), st.data())
def test_each_event_has_the_outcome_of_a_single_response(found: list[str], data: st.DataObject) -> None:
    codes = {name: data.draw(statuses) for name in found}
    full = [item(f"{name}@/s" if "@" not in name else name, code) for name, code in codes.items()]
    for got, code in zip(
        outcomes(events(*found), body(*data.draw(st.permutations(full)))), codes.values(), strict=True
    ):
        alone = SINGLE.classify(code, [], b"")
        assert (got.delivered, got.retry, got.code, got.reason) == (alone.delivered, alone.retry, code, alone.reason)


def distort(text: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(text)))
    return text[:at] + data.draw(st.binary(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]


@pytest.mark.spec("BATCH-09")
@given(st.lists(names, min_size=1, max_size=5), st.lists(st.tuples(names, statuses), max_size=6), st.data())
def test_no_event_is_delivered_that_a_207_does_not_name_as_delivered(
    found: list[str], said: list[tuple[str, int]], data: st.DataObject
) -> None:
    text = body(*(item(*one) for one in said))
    if data.draw(st.booleans()):
        text = distort(text, data)
    of = events(*found)
    got = outcomes(of, text)
    assert len(got) == len(of)
    for event, one in zip(of, got, strict=True):
        if one.delivered:
            id, source = event.attributes["id"], event.attributes["source"]
            mine = [i for i in json.loads(text)["items"] if i["id"] == id and i.get("source", source) == source]
            assert any(200 <= int(i["status"]) < 300 for i in mine)
