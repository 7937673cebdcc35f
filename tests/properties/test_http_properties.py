"""What an HTTP sink writes and how it classifies answers."""

from __future__ import annotations

import time
from email.utils import formatdate
from pathlib import Path

import httptools
import pytest
from gateway_cloudevents.bindings import HTTP
from gateway_http.client import RequestWriter, Target
from gateway_http.config import HttpSinkConfig
from gateway_http.outcome import ResponseClassifier
from gateway_testing import FakeClock
from gateway_transport.http_retries import is_retried, retry_after_s
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message
from gateway_core.contract.interfaces import Codec
from tests.budget import examples
from tests.installed import REGISTRY

QUICK = examples(120)


class Parsed:
    """A request as llhttp reads it."""

    def __init__(self, raw: bytes) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.url = b""
        self.complete = 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(raw)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1


VALUES = st.text("aé %\r\n\0:é", max_size=8).map(str.encode)


@pytest.mark.slow
@pytest.mark.spec("DP-04")
@QUICK
@given(
    st.lists(st.tuples(st.sampled_from([b"ce-id", b"ce-x", b"content-type"]), VALUES), max_size=4),
    st.binary(max_size=40),
)
def test_a_request_is_read_as_it_was_meant_or_not_written(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    target = Target(HttpSinkConfig(url="http://u:p@h.example:81/a?b=c", headers={"x-own": "1"}), wants_reply=True)
    breaks = any(c in value for _, value in headers for c in (b"\r", b"\n", b"\0"))
    try:
        raw = RequestWriter(target).write(Message(headers, body))
    except Refused:
        assert breaks
        return
    assert not breaks
    read = Parsed(raw)
    assert (read.parser.get_method(), read.url, read.body, read.complete) == (b"POST", b"/a?b=c", body, 1)
    expected = [(n, v.strip(b" \t")) for n, v in (*target.headers, *headers)]
    assert [(n, v.strip(b" \t")) for n, v in read.headers] == [*expected, (b"content-length", b"%d" % len(body))]


@pytest.mark.spec("DP-17")
@QUICK
@given(st.binary(max_size=12) | st.text("0123456789 -+_.", max_size=12).map(str.encode))
def test_any_retry_after_is_seconds_or_nothing(value: bytes) -> None:
    seconds = retry_after_s(value, 1e9)
    stripped = value.strip(b" \t")
    if stripped.isdigit():
        assert seconds == min(int(stripped), 10**9)
    else:
        assert seconds is None


@pytest.mark.spec("DP-17")
@QUICK
@given(st.integers(0, 4_000_000_000), st.integers(0, 4_000_000_000))
def test_a_retry_after_date_is_the_time_until_then(then: int, now: int) -> None:
    assert retry_after_s(formatdate(then, usegmt=True).encode(), now) == max(0, then - now)


CONTEXT = BuildContext("test", Path(), FakeClock(), REGISTRY, binding=HTTP)
CODEC: Codec = CONTEXT.build(CodecRef("cloudevents"))


@pytest.mark.slow
@pytest.mark.spec("DP-08", "DP-09", "DP-10", "DP-11", "DP-12", "DP-13", "DP-14")
@QUICK
@given(st.integers(200, 999) | st.integers(400, 430), st.binary(max_size=30), st.booleans())
def test_every_status_is_a_delivery_or_tried_again_or_final(status: int, body: bytes, wants_reply: bool) -> None:
    outcome = ResponseClassifier(CODEC, wants_reply, "http://s/", time.time).classify(
        status, [(b"content-type", b"text/plain")], body
    )
    assert outcome.delivered is (200 <= status < 300)
    assert outcome.reply is None
    if not outcome.delivered:
        final = 300 <= status < 400 or (400 <= status < 500 and status not in (404, 408, 409, 429))
        assert outcome.retry is is_retried(status) is not final
        assert (outcome.code, outcome.data) == (status, body)
        assert outcome.reason.startswith(str(status))
