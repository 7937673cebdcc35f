"""An HTTP request becomes an event for the function: a real gateway, a real function."""

from __future__ import annotations

import gzip
import json
import socket
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import web
from tests.fn.conftest import Rig
from tests.fn.functions import call

pytestmark = pytest.mark.usefixtures("processes")

REQUEST = "ioFnProjectHttpReq"


def request_in(event: dict[str, Any]) -> dict[str, Any]:
    """What the event says of the request, in either version."""
    if "specversion" in event:
        found: dict[str, Any] = json.loads(event["iofnprojecthttpreq"])
        return found
    return dict(event["extensions"][REQUEST])


@pytest.mark.spec("FN-02")
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "HEAD", "PURGE"])
def test_a_request_of_any_method_is_an_event(rig: Rig, method: str) -> None:
    assert call(rig.fn + "myApp/myTrigger?a=1&b=%20", method).status_code == 204
    event = rig.called()
    assert (event["cloudEventsVersion"], event["eventType"]) == ("0.1", "io.fnproject.httpRequest")
    assert event["eventTypeVersion"] == "1.0"
    said = request_in(event)
    assert (said["method"], said["requestURL"]) == (method, rig.fn + "myApp/myTrigger?a=1&b=%20")


@pytest.mark.spec("FN-02")
def test_headers_are_lists_of_all_values_in_their_order(rig: Rig) -> None:
    headers = [("x-many", "1"), ("Authorization", "Bearer x"), ("X-MANY", "2, 3"), ("x-name", "Grüße".encode())]
    call(rig.fn, headers=headers)
    said = request_in(rig.called())["headers"]
    assert (said["X-Many"], said["Authorization"], said["X-Name"]) == (["1", "2, 3"], ["Bearer x"], ["Grüße"])


@pytest.mark.spec("FN-02", "FN-03", "FN-04")
def test_the_specifications_example(rig: Rig) -> None:
    headers = {"Host": "fnservice.com", "Content-Type": "application/json", "Authorization": "Bearer asdlkjasldkjas"}
    call(rig.fn + "myApp/myTrigger", "PUT", headers=headers, content=b'{"my": "data"}')
    event = rig.called()
    said = event["extensions"].pop(REQUEST)
    for part in ("eventID", "eventTime"):
        assert event.pop(part)
    assert event.pop("extensions").keys() == {"ioFnProjectDeadline"}
    assert event == {
        "cloudEventsVersion": "0.1",
        "eventType": "io.fnproject.httpRequest",
        "eventTypeVersion": "1.0",
        "source": "http://fnservice.com/t/myApp/myTrigger",
        "contentType": "application/json",
        "data": {"my": "data"},
    }
    assert (said["method"], said["requestURL"]) == ("PUT", "http://fnservice.com/t/myApp/myTrigger")
    assert said["headers"]["Content-Type"] == ["application/json"]
    assert said["headers"]["Authorization"] == ["Bearer asdlkjasldkjas"]


BODIES = {
    "json": ("application/json", b'{"a": [1, null]}', {"a": [1, None]}),
    "json of its own kind": ("application/vnd.x+json; charset=utf-8", b'"text"', "text"),
    "text": ("text/plain", "Grüße".encode(), "Grüße"),
    "text in another charset": ("text/plain; charset=iso-8859-1", "Grüße".encode("latin-1"), "R3L832U="),
    "a form": ("application/x-www-form-urlencoded", b"a=1&b=2", "a=1&b=2"),
    "bytes": ("application/octet-stream", b"\x00\xff", "AP8="),
    "an image": ("image/png", b"\x89PNG", "iVBORw=="),
}


@pytest.mark.spec("FN-03")
@pytest.mark.parametrize(("kind", "body", "value"), BODIES.values(), ids=BODIES.keys())
def test_the_body_becomes_data(rig: Rig, kind: str, body: bytes, value: Any) -> None:
    call(rig.fn, "POST", headers={"content-type": kind}, content=body)
    assert (rig.called()["contentType"], rig.called()["data"]) == (kind, value)


@pytest.mark.spec("FN-03")
def test_bytes_of_which_nothing_is_said_stay_bytes(rig: Rig) -> None:
    call(rig.fn, "POST", content=b'{"a": 1}')
    assert (rig.called()["contentType"], rig.called()["data"]) == ("application/octet-stream", "eyJhIjogMX0=")


@pytest.mark.spec("FN-03")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_body_there_is_neither_data_nor_content_type(rig: Rig, method: str) -> None:
    for url in (rig.fn, rig.one):
        call(url, method, headers={"content-type": "application/json"})
        assert not rig.called().keys() & {"data", "data_base64", "contentType", "datacontenttype"}
    assert request_in(rig.called())["headers"]["Content-Type"] == ["application/json"]


@pytest.mark.spec("SAFE-23")
def test_a_body_in_gzip_is_undone_and_its_headers_say_so(rig: Rig) -> None:
    headers = {"content-type": "text/plain", "content-encoding": "gzip"}
    assert web.post(rig.fn, headers=headers, content=gzip.compress(b"hello " * 100), verify=False).status_code == 204
    event = rig.called()
    assert event["data"] == "hello " * 100
    listed = request_in(event)["headers"]
    assert "Content-Encoding" not in listed
    assert listed["Content-Length"] == ["600"]
    answer = web.post(rig.fn, headers={**headers, "content-encoding": "br"}, content=b"x", verify=False)
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip")


@pytest.mark.spec("FN-04")
def test_each_request_has_an_id_and_its_time(rig: Rig) -> None:
    before = datetime.now(UTC)
    events = []
    for _ in range(2):
        call(rig.fn + "x")
        events.append(rig.called())
    assert [e["source"] for e in events] == [rig.fn + "x"] * 2
    assert len({uuid.UUID(e["eventID"]) for e in events}) == 2
    times = [datetime.fromisoformat(e["eventTime"]) for e in events]
    assert before - timedelta(milliseconds=1) <= times[0] <= times[1] <= datetime.now(UTC)


RAW = {
    "absolute form": (b"GET http://f.example/t/x?y HTTP/1.1\r\nHost: h\r\n", "http://f.example/t/x?y"),
    "HTTP/1.0": (b"GET /t/x HTTP/1.0\r\n", None),
    "HTTP/1.1": (b"GET /t/x HTTP/1.1\r\nHost: h:81\r\n", "http://h:81/t/x"),
    "what no URI may have": (
        b'GET /t/a|b"%zz?c=%2f{ HTTP/1.1\r\nHost: a"b<>\r\n',
        "http://a%22b%3C%3E/t/a%7Cb%22%25zz?c=%2f%7B",
    ),
}


def raw(url: str, head: bytes) -> bytes:
    """The first line of the answer to bytes that no client library would send."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), 20) as connection:
        connection.sendall(head + (b"\r\n" if b"Connection" in head else b"Connection: close\r\n\r\n"))
        return connection.makefile("rb").readline()


@pytest.mark.spec("FN-04")
@pytest.mark.parametrize(("head", "source"), RAW.values(), ids=RAW.keys())
def test_the_source_is_the_url_in_every_form_of_a_request(rig: Rig, head: bytes, source: str | None) -> None:
    assert raw(rig.fn, head).startswith(b"HTTP/1.1 204")
    assert rig.called()["source"] == (source or rig.fn + "x")


def test_a_websocket_is_a_plain_request(rig: Rig) -> None:
    head = b"GET /t/ HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    assert raw(rig.fn, head + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n").startswith(b"HTTP/1.1 204")


@pytest.mark.spec("FN-12")
def test_the_deadline_is_the_timeout_from_now(rig: Rig) -> None:
    call(rig.fn)
    event = rig.called()
    deadline = datetime.fromisoformat(event["extensions"]["ioFnProjectDeadline"])
    assert deadline - datetime.fromisoformat(event["eventTime"]) == timedelta(seconds=30)
    call(rig.one)
    event = rig.called()
    deadline = datetime.fromisoformat(event["iofnprojectdeadline"])
    assert deadline - datetime.fromisoformat(event["time"]) == timedelta(seconds=30)


@pytest.mark.spec("FN-02", "FN-03", "FN-04")
def test_a_function_of_1_0_is_called_with_events_of_1_0(rig: Rig) -> None:
    call(rig.one + "?q=1", "POST", headers={"content-type": "image/png"}, content=b"\x89PNG")
    event = rig.called()
    assert (event["specversion"], event["type"]) == ("1.0", "io.fnproject.httpRequest")
    assert event["source"] == "https://f.example/t/one?q=1"
    assert (event["datacontenttype"], event["data_base64"]) == ("image/png", "iVBORw==")
    assert all(name.islower() for name in event.keys() - {"data_base64"})
    said = request_in(event)
    assert (said["method"], said["requestURL"]) == ("POST", "https://f.example/t/one?q=1")
    assert said["headers"]["Content-Type"] == ["image/png"]


def test_a_body_that_is_not_what_it_says_is_refused(rig: Rig) -> None:
    before, calls = rig.counts()["refused"], len(rig.function.requests)
    for kind, body in (("application/json", b'{"a":'), ("text/plain", b"\xff")):
        answer = call(rig.fn, "POST", headers={"content-type": kind}, content=body)
        assert (answer.status_code, answer.json()["attribute"]) == (400, "data")
    assert rig.counts()["refused"] == before + 2
    assert len(rig.function.requests) == calls


def test_version_1_0_carries_what_json_can_not(rig: Rig) -> None:
    call(rig.one, "POST", headers={"content-type": "application/json"}, content=b'{"a":')
    assert rig.called()["data_base64"] == "eyJhIjo="


def test_other_paths_and_long_bodies_do_not_reach_the_function(rig: Rig) -> None:
    calls = len(rig.function.requests)
    answers = [call(rig.one + "/x"), call(rig.fn.removesuffix("/t/") + "/other"), call(rig.fn.removesuffix("/"))]
    assert [a.status_code for a in answers] == [404, 404, 404]
    long = call(rig.hasty, "POST", content=b"x" * 1025)
    assert (long.status_code, long.headers["content-type"]) == (413, "application/problem+json")
    assert len(rig.function.requests) == calls
    assert call(rig.hasty, "POST", content=b"x" * 1024).status_code in (204, 504)
