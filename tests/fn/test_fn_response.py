"""The event that a function returns becomes the HTTP response, and goes to the broker."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.command_line import tidegate
from tests.fn.conftest import Rig
from tests.fn.functions import STRUCTURED, call, failing, letters, returned, returned_1_0, with_response

pytestmark = pytest.mark.usefixtures("processes")

PROBLEM = "application/problem+json"

RETURNED = {
    "json": (returned(contentType="application/json; charset=utf-8", data={"a": 1}), b'{"a": 1}'),
    "json of which nothing is said": (returned(data=[1]), b"[1]"),
    "text": (returned(contentType="text/plain", data="Grüße"), "Grüße".encode()),
    "bytes": (returned(contentType="image/png", data="iVBORw=="), b"\x89PNG"),
    "1.0": (returned_1_0(datacontenttype="text/plain", data="hello"), b"hello"),
    "1.0, bytes": (returned_1_0(datacontenttype="image/png", data_base64="iVBORw=="), b"\x89PNG"),
    "1.0, binary mode": ((200, {"ce-specversion": "1.0", "content-type": "image/png"}, b"\x89PNG"), b"\x89PNG"),
    "what the gateway sets is empty": (returned(source="", eventID="", eventType="", extensions={}, data=1), b"1"),
    "no words of CloudEvents at all": ((200, STRUCTURED, b'{"contentType": "text/css", "data": "a{}"}'), b"a{}"),
}


@pytest.mark.spec("FN-05", "FN-06")
@pytest.mark.parametrize(("answer", "body"), RETURNED.values(), ids=RETURNED.keys())
def test_data_is_the_body_and_its_type_the_content_type(rig: Rig, answer: Any, body: bytes) -> None:
    rig.answer = lambda event: answer
    got = call(rig.fn)
    assert (got.status_code, got.content) == (200, body)
    said = json.loads(answer[2]) if answer[1] == STRUCTURED else {"contentType": answer[1]["content-type"]}
    declared = said.get("contentType") or said.get("datacontenttype") or "application/json"
    assert got.headers["content-type"] == declared


@pytest.mark.spec("FN-05")
def test_bytes_go_through_a_function_unchanged(rig: Rig) -> None:
    rig.answer = lambda event: returned(contentType=event["contentType"], data=event["data"])
    for kind, body in (("image/png", bytes(range(256))), ("text/html; charset=utf-16", "a€".encode("utf-16"))):
        assert call(rig.fn, "POST", headers={"content-type": kind}, content=body).content == body


@pytest.mark.spec("FN-06")
def test_without_data_the_status_is_204(rig: Rig) -> None:
    for answer in (returned(eventType="x"), returned(data=None), returned_1_0(type="x"), 202):
        rig.answer = lambda event, answer=answer: answer  # type: ignore[misc]
        got = call(rig.fn)
        assert (got.status_code, got.content) == (204, b"")
        assert "content-type" not in got.headers


@pytest.mark.spec("FN-07")
def test_a_function_sets_status_and_headers(rig: Rig) -> None:
    said = {"status": 418, "headers": {"My-Header": ["foo", "bar"], "x-one": ["é"], "X-None": []}}
    for answer in (
        with_response(said, eventType="com.example.tea", data="short and stout"),
        returned_1_0(iofnprojecthttpresp=json.dumps(said), datacontenttype="text/plain", data="short and stout"),
    ):
        rig.answer = lambda event, answer=answer: answer  # type: ignore[misc]
        got = call(rig.fn)
        assert got.status_code == 418
        assert got.headers.get_list("my-header") == ["foo", "bar"]
        assert (b"x-one", "é".encode()) in got.headers.raw
        assert "x-none" not in got.headers
        assert "short and stout" in got.text


@pytest.mark.spec("FN-07")
@pytest.mark.parametrize("status", [204, 205, 304])
def test_a_status_without_body_has_none(rig: Rig, status: int) -> None:
    rig.answer = lambda event: with_response({"status": status}, contentType="application/json", data={"a": 1})
    got = call(rig.fn)
    assert (got.status_code, got.content) == (status, b"")


@pytest.mark.spec("FN-08")
@pytest.mark.parametrize("name", ["Content-Type", "Content-type", "content-type", "CONTENT-TYPE"])
def test_a_content_type_among_the_headers_is_ignored(rig: Rig, name: str) -> None:
    said = {"headers": {name: ["text/html"], "x": ["y"]}}
    rig.answer = lambda event: with_response(said, contentType="application/json; charset=utf-8", data=1)
    assert call(rig.fn).headers.get_list("content-type") == ["application/json; charset=utf-8"]
    rig.answer = lambda event: with_response(said)
    assert "content-type" not in call(rig.fn).headers


@pytest.mark.spec("FN-07")
def test_headers_of_the_connection_are_ignored(rig: Rig) -> None:
    headers = {"Connection": ["close"], "Transfer-Encoding": ["gzip"], "content-length": ["1"], "Keep-Alive": ["x"]}
    rig.answer = lambda event: with_response({"headers": headers}, contentType="text/plain", data="whole")
    got = call(rig.fn)
    assert (got.text, got.headers["content-length"]) == ("whole", "5")
    assert not {"connection", "transfer-encoding", "keep-alive"} & got.headers.keys()


BAD = {
    **{f"status {status!r}": {"status": status} for status in (99, 100, 600, "200", True, 2e2)},
    "not an object": [1],
    "headers not an object": {"headers": ["a"]},
    "a header's value not a list": {"headers": {"a": {"b": 1}}},
    "a number among values": {"headers": {"a": [1]}},
    "a line break in a value": {"headers": {"a": ["b\r\nset-cookie: c=d"]}},
    "no header name": {"headers": {"a b": ["c"]}},
    "a line break in a name": {"headers": {"a\r\nb": ["c"]}},
}


@pytest.mark.spec("FN-07")
@pytest.mark.parametrize("said", BAD.values(), ids=BAD.keys())
def test_what_is_no_response_is_a_502(rig: Rig, said: Any) -> None:
    failed = rig.counts()["failed"]
    rig.answer = lambda event: with_response(said, data=1)
    got = call(rig.fn)
    assert (got.status_code, got.headers["content-type"]) == (502, PROBLEM)
    assert "set-cookie" not in got.headers
    assert rig.counts()["failed"] == failed + 1


def test_a_response_extension_that_is_no_json_is_a_502(rig: Rig) -> None:
    rig.answer = lambda event: returned_1_0(iofnprojecthttpresp="{")
    assert call(rig.fn).status_code == 502


@pytest.mark.spec("FN-09")
def test_the_type_is_that_of_a_response_where_the_function_names_none(rig: Rig) -> None:
    for n, make in enumerate((returned, returned_1_0)):
        rig.answer = lambda event, make=make, n=n: make(data={"typeless": n})  # type: ignore[misc]
        call(rig.fn)
        event = rig.found(lambda e, n=n: e.get("data") == {"typeless": n})  # type: ignore[misc]
        assert event.get("eventType", event.get("type")) == "io.fnproject.httpResponse"
    rig.answer = lambda event: returned(eventType="com.example.mine", data="typed")
    call(rig.fn)
    assert rig.found(lambda e: e.get("data") == "typed")["eventType"] == "com.example.mine"


@pytest.mark.spec("FN-11", "FN-01")
def test_the_gateway_says_where_a_returned_event_is_from(rig: Rig) -> None:
    own = {"source": "urn:mine", "eventID": "mine", "eventTime": "1999-01-01T00:00:00Z"}
    before = datetime.now(UTC).replace(microsecond=0)
    rig.answer = lambda event: returned(eventType="t", data="overridden", extensions={"a": {"b": [1]}}, **own)
    call(rig.fn)
    event = rig.found(lambda e: e.get("data") == "overridden")
    assert event["source"] == rig.function.url
    assert uuid.UUID(event["eventID"])
    assert before <= datetime.fromisoformat(event["eventTime"]) <= datetime.now(UTC)
    assert event["extensions"] == {"a": {"b": [1]}}


@pytest.mark.spec("FN-11")
def test_events_of_1_0_are_overridden_too(rig: Rig) -> None:
    own = {"source": "urn:mine", "id": "mine", "time": "1999-01-01T00:00:00Z", "type": "t", "own": "kept"}
    rig.answer = lambda event: returned_1_0(data="overridden 1.0", **own)
    call(rig.one)
    event = rig.found(lambda e: e.get("data") == "overridden 1.0")
    assert (event["source"], event["own"], event["type"]) == (rig.function.url, "kept", "t")
    assert uuid.UUID(event["id"])
    assert event["time"] > "2000"


@pytest.mark.spec("FN-10", "FN-11")
def test_an_error_is_a_502_with_its_message_counted_and_routed(rig: Rig) -> None:
    failed, accepted = rig.counts()["failed"], rig.counts()["accepted"]
    rig.answer = lambda event: failing("An error occured in the function")
    got = call(rig.fn, "POST", json={})
    assert (got.status_code, got.headers["content-type"]) == (502, PROBLEM)
    assert got.json()["detail"] == "An error occured in the function"
    assert (rig.counts()["failed"], rig.counts()["accepted"]) == (failed + 1, accepted + 1)
    routed = rig.found(lambda e: e["data"]["message"].startswith("An error"), rig.errors)
    assert (routed["source"], routed["eventType"]) == (rig.function.url, "io.fnproject.fnError")
    assert routed["eventID"]
    assert routed["eventTime"]


@pytest.mark.spec("FN-10")
@pytest.mark.parametrize(("said", "status"), [({"status": 503}, 503), ({"status": 200}, 502), ({"status": 404}, 502)])
def test_an_errors_status_is_5xx(rig: Rig, said: Any, status: int) -> None:
    rig.answer = lambda event: failing("no", extensions={"ioFnProjectHttpResp": said})
    assert call(rig.fn).status_code == status


@pytest.mark.spec("FN-10")
@pytest.mark.parametrize("data", [None, 1, {"message": ""}, {"message": {}}, "broken"])
def test_an_error_without_a_message_is_one_too(rig: Rig, data: Any) -> None:
    rig.answer = lambda event: returned(eventType="io.fnproject.fnError", data=data)
    got = call(rig.fn)
    assert got.status_code == 502
    assert got.json()["detail"]


CALLS_THAT_FAIL = {
    "500": (500, 502),
    "400": (400, 422),
    "404": (404, 502),
    "a redirect": ((302, {"location": "/"}, b""), 502),
    "no answer": (None, 502),
    "200 without an event": ((200, {"content-type": "text/html"}, b"<p>"), 502),
    "no event after all": ((200, STRUCTURED, b"{"), 502),
    "extensions that are none": (returned(extensions=[1]), 502),
    "overloaded": ((503, {"retry-after": "7"}, b""), 503),
}


@pytest.mark.parametrize(("answer", "status"), CALLS_THAT_FAIL.values(), ids=CALLS_THAT_FAIL.keys())
def test_the_caller_is_told_of_a_failed_call_once(rig: Rig, answer: Any, status: int) -> None:
    before, calls, buried = rig.counts(), len(rig.function.requests), len(letters(rig.folder))
    rig.answer = lambda event: answer
    got = call(rig.fn)
    assert (got.status_code, got.headers["content-type"]) == (status, PROBLEM)
    assert got.headers.get("retry-after") == ("7" if status == 503 else None)
    after = rig.counts()
    assert len(rig.function.requests) - calls == 1
    assert after["accepted"] == before["accepted"]
    assert len(letters(rig.folder)) == buried


@pytest.mark.spec("FN-13", "FN-12")
def test_past_the_deadline_the_caller_gets_504_and_the_event_is_a_dead_letter(rig: Rig) -> None:
    release = threading.Event()
    before, calls, buried = rig.counts(), len(rig.function.requests), len(letters(rig.folder))

    def slow(event: dict[str, Any]) -> Any:
        release.wait(20)
        return returned(data="too late")

    rig.answer = slow
    try:
        got = call(rig.hasty + "slow", "POST", json={"order": 7})
        assert (got.status_code, got.headers["content-type"]) == (504, PROBLEM)
        rig.gateway.wait_until(lambda: len(letters(rig.folder)) > buried, what="the dead letter")
    finally:
        release.set()
    letter = letters(rig.folder)[-1]
    assert letter["eventType"] == "io.fnproject.httpRequest"
    assert (letter["source"], letter["data"]) == (rig.hasty + "slow", {"order": 7})
    assert letter["tidegatereason"] == "past its deadline: no response within 0.2 s"
    assert (letter["knativeerrordest"], letter["tidegateattempts"]) == (rig.function.url, 1)
    rig.gateway.wait_until(lambda: rig.counts()["dead_lettered"] == before["dead_lettered"] + 1, what="its count")
    assert rig.counts()["failed"] == before["failed"] + 1
    assert len(rig.function.wait_for(calls + 1)) == calls + 1
    assert rig.counts()["accepted"] == before["accepted"]


def test_a_dead_letter_can_be_sent_to_the_function_again(rig: Rig) -> None:
    release = threading.Event()

    def slow(event: dict[str, Any]) -> Any:
        release.wait(20)
        return 202

    rig.answer = slow
    buried = len(letters(rig.folder))
    try:
        assert call(rig.hasty, "POST", json={"order": 8}).status_code == 504
        rig.gateway.wait_until(lambda: len(letters(rig.folder)) > buried, what="the dead letter")
    finally:
        release.set()
    words = ("dlq", "replay", "-c", rig.gateway.config, "--all", "--data-dir", rig.gateway.data_dir)
    done = tidegate(*words, "--to", rig.function.url, cwd=rig.folder)
    assert done.returncode == 0, done.stderr
    again = rig.called()
    assert (again["eventType"], again["data"]) == ("io.fnproject.httpRequest", {"order": 8})
    assert again["extensions"]["ioFnProjectHttpReq"]["method"] == "POST"
    assert not [name for name in again if name.startswith(("tidegate", "knative"))]
    assert letters(rig.folder) == []
