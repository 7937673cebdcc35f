"""The codec, where it is installed."""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlencode

import pytest
from gateway_cloudevents.bindings import HTTP
from gateway_testing.suites import Kit, Suite
from gateway_testing.vectors import HOSTILE_MESSAGES

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message

BODY = b'{"action":"opened","number":7,"repository":{"url":"https://api.github.com/repos/octo/hello"}}'
HEADERS = [
    (b"content-type", b"application/json"),
    (b"x-github-event", b"pull_request"),
    (b"x-github-delivery", b"72d3162e-cc78"),
]


class TestGitHub(Suite):
    def test_a_delivery_becomes_an_event(self, kit: Kit) -> None:
        (event,) = kit.codec("github").decode(Message(HEADERS, BODY))
        assert event.data == BODY
        assert event.attributes["id"] == "72d3162e-cc78"
        assert event.attributes["type"] == "com.github.pull_request.opened"
        assert event.attributes["source"] == "https://api.github.com/repos/octo/hello"

    def test_githubs_default_is_a_form_with_the_json_in_a_field(self, kit: Kit) -> None:
        body = urlencode({"payload": BODY.decode()}).encode()
        signature = b"sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest().encode()
        headers = [(b"content-type", b"application/x-www-form-urlencoded"), *HEADERS[1:]]
        codec = kit.codec("github", {"secret": "s3cret"})
        (event,) = codec.decode(Message([*headers, (b"x-hub-signature-256", signature)], body))
        assert event.data == BODY
        assert event.attributes["type"] == "com.github.pull_request.opened"
        assert event.attributes["datacontenttype"] == "application/json"

    def test_half_a_surrogate_pair_costs_no_delivery(self, kit: Kit) -> None:
        body = BODY[:-1] + b',"body":"\\ud83d"}'
        (event,) = kit.codec("github").decode(Message(HEADERS, body))
        assert event.data == body

    def test_the_event_can_be_sent_on(self, kit: Kit) -> None:
        (event,) = kit.codec("github").decode(Message(HEADERS, BODY))
        codec = kit.codec("cloudevents", binding=HTTP)
        assert codec.decode(codec.encode(event)) == [event]

    def test_only_a_delivery_with_the_right_signature_is_read(self, kit: Kit) -> None:
        codec = kit.codec("github", {"secret": "s3cret"})
        signature = b"sha256=" + hmac.new(b"s3cret", BODY, hashlib.sha256).hexdigest().encode()
        assert len(codec.decode(Message([*HEADERS, (b"x-hub-signature-256", signature)], BODY))) == 1
        for more in ([], [(b"x-hub-signature-256", signature[:-1])]):
            with pytest.raises(Refused) as refused:
                codec.decode(Message([*HEADERS, *more], BODY))
            assert refused.value.status == 401

    @pytest.mark.parametrize("message", HOSTILE_MESSAGES.values(), ids=HOSTILE_MESSAGES)
    def test_it_reads_or_refuses_whatever_comes(self, kit: Kit, message: Message) -> None:
        for headers in (message.headers, [*HEADERS, *message.headers]):
            refusals: list[int] = []
            try:
                found = kit.codec("github").decode(Message(headers, message.body))
            except Refused as e:
                refusals, found = [e.status], []
            assert all(400 <= status < 500 for status in refusals)
            assert all(isinstance(event, Event) for event in found)
