"""`tidegate send` against a real HTTP server."""

from __future__ import annotations

import io
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from gateway_testing import Subscriber

LINES = [b'{"specversion":"1.0","id":"%d","source":"/s","type":"t","data":{"n":%d}}' % (n, n) for n in range(5)]
REFUSAL = (400, {"content-type": "application/problem+json"}, b'{"title":"Bad Request","detail":"no type"}')


def test_one_event_from_flags(tidegate) -> None:
    with Subscriber() as s:
        ran = tidegate(
            "send", s.url, "--type", "order", "--id", "7", "--data", '{"n": 1.0}', "--ext", "a=b c", "--subject", "x"
        )
        (request,) = s.requests
    assert (ran.code, ran.out) == (0, "1 accepted, 0 refused\n")
    assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    event = json.loads(request.body)
    assert event.pop("time").endswith("Z")
    assert event == {
        "specversion": "1.0",
        "id": "7",
        "type": "order",
        "source": "/tidegate/send",
        "subject": "x",
        "a": "b c",
        "datacontenttype": "application/json",
        "data": {"n": 1.0},
    }


def test_binary_mode_encodes_headers_and_keeps_the_data(tidegate, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\x00\xff")
    with Subscriber() as s:
        args = ["--type", "t", "--ext", 'name=Grüße "50%"', "--content-type", "image/png", "--data", "@data"]
        tidegate("send", s.url, "--mode", "binary", *args)
        (request,) = s.requests
    assert request.headers["ce-name"] == "Gr%C3%BC%C3%9Fe%20%2250%25%22"
    assert (request.headers["content-type"], request.body) == ("image/png", b"\x00\xff")


@pytest.mark.parametrize(
    "text",
    [b"\n".join(LINES), b"\n\n" + b"\r\n\n".join(LINES) + b"\n", b" [\n" + b",\n".join(LINES) + b"]\n"],
    ids=["lines", "spaced lines", "array"],
)
def test_a_file_of_events_goes_out_as_it_is(tidegate, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "events").write_bytes(text)
    with Subscriber() as s:
        ran = tidegate("send", s.url, "events")
        assert sorted(r.body for r in s.requests) == LINES
    assert ran.out == "5 accepted, 0 refused\n"


def test_a_single_event_over_many_lines(tidegate, tmp_path: Path) -> None:
    (tmp_path / "event").write_text('{\n  "id": "1",\n  "data": 1.0\n}\n')
    with Subscriber() as s:
        tidegate("send", s.url, "event")
        assert [r.body for r in s.requests] == [b'{\n  "id": "1",\n  "data": 1.0\n}']


def test_standard_input_in_batches(tidegate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(LINES))))
    with Subscriber() as s:
        ran = tidegate("send", s.url, "-", "--mode", "batch", "--batch-size", "2", "--json")
        sizes = sorted(len(json.loads(r.body)) for r in s.requests)
        types = {r.headers["content-type"] for r in s.requests}
    assert (sizes, types) == ([1, 2, 2], {"application/cloudevents-batch+json; charset=utf-8"})
    assert json.loads(ran.out) == {"accepted": 5, "refused": 0, "unanswered": 0, "reasons": {}}


def test_members_of_our_own_files_are_left_out(tidegate, tmp_path: Path) -> None:
    (tmp_path / "events").write_text('{"id":"1","data":{"a":1},"key_base64":"aw=="}')
    with Subscriber() as s:
        tidegate("send", s.url, "events")
        assert json.loads(s.requests[0].body) == {"id": "1", "data": {"a": 1}}


@pytest.mark.spec("SAFE-106")
@pytest.mark.slow
def test_json_that_the_fast_parser_refuses_is_sent_in_each_mode(tidegate, tmp_path: Path) -> None:
    event = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":%b}'
    data = [b'"\\ud800"', b"[" * 1500 + b"]" * 1500]
    lines = [event % d for d in data]
    (tmp_path / "lines").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n")
    (tmp_path / "array").write_bytes(b"[\n%b\n]" % b",\n".join(lines))
    for name in ("lines", "array"):
        with Subscriber() as s:
            assert tidegate("send", s.url, name).out == "2 accepted, 0 refused\n"
            assert tidegate("send", s.url, name, "--mode", "batch").out == "2 accepted, 0 refused\n"
            assert tidegate("send", s.url, name, "--mode", "binary").out == "2 accepted, 0 refused\n"
            bodies = {r.body for r in s.requests}
        assert bodies == {*lines, b"[%b]" % b",".join(lines), *data}


@pytest.mark.spec("SAFE-108")
def test_text_is_sent_in_the_charset_that_its_type_declares(tidegate, tmp_path: Path) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": "\u00e9"}
    (tmp_path / "e").write_text(json.dumps({**event, "datacontenttype": "text/plain; charset=iso-8859-1"}))
    with Subscriber() as s:
        tidegate("send", s.url, "e", "--mode", "binary")
        assert s.requests[0].body == b"\xe9"


def test_refusals_are_counted_and_explained(tidegate, tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"\n".join(LINES))
    with Subscriber([REFUSAL, 202, REFUSAL]) as s:
        ran = tidegate("send", s.url, "events")
        assert len(s.requests) == 5
    assert (ran.code, ran.out) == (1, "3 accepted, 2 refused\n")
    assert ran.err == "  2 x 400 Scripted: no type\n"


@pytest.mark.slow
def test_what_fails_for_now_is_tried_again(tidegate) -> None:
    with Subscriber([(503, {"retry-after": "0"}, b""), None, 202]) as s:
        ran = tidegate("send", s.url, "--type", "t")
        assert len(s.requests) == 3
    assert ran.code == 0


def test_headers_go_with_each_request(tidegate, tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"\n".join(LINES))
    (tmp_path / "key").write_text("tgk_secret\n")
    with Subscriber() as s:
        tidegate("send", s.url, "events", "--header", "x-api-key=@key", "--header", "X-Other=a=b")
        assert {(r.headers["x-api-key"], r.headers["x-other"]) for r in s.requests} == {("tgk_secret", "a=b")}


@pytest.mark.parametrize("header", ["tgk_secret", "a b=tgk_secret", "x-api-key=@nowhere", "x-api-key=tgk_secret\n"])
def test_a_wrong_header_is_a_usage_error_that_quotes_no_value(tidegate, header: str) -> None:
    ran = tidegate("send", "http://127.0.0.1:1/", "--type", "t", "--header", header)
    assert ran.code == 2
    assert "tgk_secret" not in ran.err


def test_an_address_where_nobody_answers(tidegate, tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"\n".join(LINES))
    with Subscriber() as s:
        url = s.url
    ran = tidegate("send", url, "events", "--retry", "0", "--in-flight", "1")
    assert (ran.code, ran.out) == (1, "0 accepted, 0 refused, 1 without an answer\n")
    assert f"no response from {url}" in ran.err


def test_a_line_that_is_no_event_is_named(tidegate, tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(LINES[0] + b"\n\nnonsense\n")
    with Subscriber() as s:
        ran = tidegate("send", s.url, "events")
    assert (ran.code, ran.out) == (1, "1 accepted, 0 refused\n")
    assert ran.err == "tidegate: events:3: not a JSON object\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["events", "--type", "t"], ["--type", "t", "--ext", "novalue"], ["--type", "t", "--data", "@missing"]],
)
def test_what_to_send_must_be_clear(tidegate, arguments: list[str]) -> None:
    assert tidegate("send", "http://127.0.0.1:1/", *arguments).code == 2


def test_a_file_that_isnt_there(tidegate) -> None:
    ran = tidegate("send", "http://127.0.0.1:1/", "missing")
    assert (ran.code, ran.err) == (1, "tidegate: can't read missing: No such file or directory\n")


@pytest.mark.parametrize("data", ["{bad", '{"a": 1', "[1, 2", "{'a': 1}"])
def test_data_that_was_meant_as_json_is_not_sent_as_text(tidegate, data: str) -> None:
    with Subscriber() as s:
        ran = tidegate("send", s.url, "--type", "t", "--data", data)
        assert s.requests == []
    assert ran.code == 2
    assert "--content-type" in ran.err


def test_text_that_looks_like_json_is_sent_where_the_content_type_says_so(tidegate) -> None:
    with Subscriber() as s:
        assert tidegate("send", s.url, "--type", "t", "--data", "{bad", "--content-type", "text/plain").code == 0
        assert json.loads(s.requests[0].body)["data"] == "{bad"


def test_an_address_without_its_scheme_is_told_so(tidegate) -> None:
    ran = tidegate("send", "127.0.0.1:8081", "--type", "t")
    assert (ran.code, "write http://127.0.0.1:8081" in " ".join(ran.err.split())) == (2, True)


@pytest.mark.slow
def test_many_events_share_few_connections(tidegate, tmp_path: Path) -> None:
    connections = set()

    class Counting(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            connections.add(self.client_address)
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    (tmp_path / "events").write_bytes(b"\n".join(LINES * 40))
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        ran = tidegate("send", f"http://127.0.0.1:{server.server_address[1]}/", "events", "--in-flight", "4")
        server.shutdown()
        thread.join()
    assert (ran.code, ran.out) == (0, "200 accepted, 0 refused\n")
    assert 1 <= len(connections) <= 4


@pytest.mark.slow
def test_tls_files_that_can_not_be_used_are_named(tidegate, tmp_path: Path) -> None:
    (tmp_path / "broken.pem").write_text("nonsense")
    for flags, says in [
        (("--key-file", "a.key"), "pass --cert-file too"),
        (("--ca-file", "none.pem"), "the certificate files can't be used: [Errno 2] No such file"),
        (("--cert-file", "broken.pem"), "the certificate files can't be used: "),
    ]:
        ran = tidegate("send", "https://127.0.0.1:1/", "--type", "t", *flags)
        assert ran.code != 0
        assert says in ran.err
