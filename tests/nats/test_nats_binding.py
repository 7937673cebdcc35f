"""The CloudEvents NATS binding: 1.0.2, and binary mode as in 1.0.3-wip."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_nats.binding import NATS, headers_of, message_of
from gateway_testing.suites import CodecSuite, Kit
from gateway_testing.vectors import VECTORS

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

BASE = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
JSON = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"n":1}}'


@pytest.fixture
def codec() -> Codec:
    return Kit(Path()).codec("cloudevents", {"mode": "binary"}, NATS)


def read(codec: Codec, headers: dict[str, str] | None, data: bytes) -> Event:
    (event,) = codec.decode(message_of(headers, data))
    return event


def written(codec: Codec, event: Event) -> tuple[dict[str, str], bytes | None]:
    message = codec.encode(event)
    return headers_of(message), message.body


@pytest.mark.spec("NT-04")
class TestNatsCodec(CodecSuite):
    binding = NATS
    modes = ("binary", "structured")

    def build(self, kit: Kit) -> Codec:
        return kit.codec("cloudevents", binding=NATS)


@pytest.mark.spec("NT-04")
@pytest.mark.parametrize(
    "headers",
    [
        None,
        {"Nats-Msg-Id": "1"},
        {"content-type": "application/json"},
        {"Content-Type": "application/cloudevents"},
        {"Content-Type": "Application/CloudEvents; charset=utf-8"},
        {"CONTENT-TYPE": "application/cloudevents+json"},
    ],
)
def test_a_message_without_attributes_in_headers_is_structured(codec: Codec, headers: dict[str, str] | None) -> None:
    event = read(codec, headers, JSON)
    assert (event.attributes["id"], event.data) == ("1", b'{"n":1}')


@pytest.mark.spec("NT-04")
def test_binary_mode_has_all_attributes_in_headers_percent_encoded(codec: Codec) -> None:
    event = Event(
        {**{n[3:]: v for n, v in BASE.items()}, "subject": "Euro € 😀", "datacontenttype": "text/plain; x=1"}, b"d"
    )
    headers, data = written(codec, event)
    assert headers == {
        **BASE,
        "ce-subject": "Euro%20%E2%82%AC%20%F0%9F%98%80",  # the example of section 3.1.3.2
        "ce-datacontenttype": "text/plain;%20x=1",
    }
    assert read(codec, headers, data or b"") == event


@pytest.mark.spec("NT-04")
def test_what_the_go_sdk_writes_is_read(codec: Codec) -> None:
    """It encodes nothing, and older versions put the data's type into `content-type`."""
    event = read(codec, {**BASE, "ce-subject": "50% of € 1", "content-type": "text/plain"}, b"x")
    assert event.attributes["subject"] == "50% of € 1"
    assert event.attributes["datacontenttype"] == "text/plain"
    assert (
        read(codec, {**BASE, "ce-datacontenttype": "text/plain", "content-type": "text/html"}, b"x").attributes[
            "datacontenttype"
        ]
        == "text/plain"
    )


@pytest.mark.spec("NT-04")
def test_names_of_headers_know_no_case(codec: Codec) -> None:
    assert read(codec, {name.title(): value for name, value in BASE.items()}, b"").attributes["id"] == "1"


@pytest.mark.spec("NT-04")
def test_an_event_in_an_event_stays_data(codec: Codec) -> None:
    kind = "application/cloudevents+json"
    event = read(codec, {**BASE, "ce-datacontenttype": kind}, JSON)
    assert (event.attributes["datacontenttype"], event.data) == (kind, JSON)
    headers, data = written(codec, event)
    assert read(codec, headers, data or b"") == event


@pytest.mark.spec("NT-04")
@pytest.mark.parametrize(
    ("headers", "data", "says"),
    [
        (None, b"{nonsense", "JSON"),
        ({"ce-specversion": "1.0", "ce-id": "1"}, b"", "required"),
        ({**BASE, "ce-subject": "%C0%A0"}, b"", "not UTF-8"),
        ({"Content-Type": "application/cloudevents-batch+json"}, b"[]", "specversion"),
    ],
)
def test_a_refusal_says_what_is_wrong(codec: Codec, headers: dict[str, str] | None, data: bytes, says: str) -> None:
    with pytest.raises(Refused) as refused:
        read(codec, headers, data)
    assert says in f"{refused.value.detail} {refused.value.title}"


def test_vectors_pass_through_the_headers_of_nats(codec: Codec) -> None:
    for vector in VECTORS:
        headers, data = written(codec, vector.event)
        found = read(codec, headers, data or b"")
        again = codec.decode(Message([(n.encode(), v.encode()) for n, v in vector.headers.items()], data))
        assert found.attributes == again[0].attributes
