"""The codec `webhook`: what becomes of a plain POST."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from gateway_cloudevents.bindings import HTTP
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec
from tests.budget import examples

pytestmark = pytest.mark.spec("HM-20")

REGISTRY = Registry.installed()
CONTEXT = BuildContext("test", Path(), FakeClock(), REGISTRY)
STRIPE = {"type": "com.stripe.{/type}", "source": "https://stripe.com/", "id": "{/id}", "time": "{/created}"}


def codec(**options: Any) -> Codec:
    offer = REGISTRY.find("codec", "webhook")
    assert offer is not None
    built: Codec = offer.component.build(offer.component.model.model_validate(options), CONTEXT)
    return built


def post(body: Any, **headers: str) -> Message:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Message(fields, body if isinstance(body, bytes) else json.dumps(body).encode(), method="POST", url="/")


def only(codec: Codec, message: Message) -> Event:
    [event] = codec.decode(message)
    return event


def test_attributes_from_header_fields() -> None:
    github = codec(type="com.github.{X-GitHub-Event}", source="/github", id="{x-github-delivery}", subject="{/number}")
    message = post({"number": 7}, x_github_event="issues", x_github_delivery="d-1", content_type="application/json")
    event = only(github, message)
    assert event.attributes == {
        "specversion": "1.0",
        "id": "d-1",
        "source": "/github",
        "type": "com.github.issues",
        "datacontenttype": "application/json",
        "subject": "7",
    }
    assert event.data == b'{"number": 7}'


def test_a_body_that_comes_again_has_the_same_id() -> None:
    made = codec(type="com.github.{x-github-event}", source="{/s}", id="{sha256(body)}")
    first = only(made, post({"s": "/s"}, x_github_event="push", x_github_delivery="1"))
    again = only(made, post({"s": "/s"}, x_github_event="ping", x_github_delivery="2"))
    assert first.attributes["id"] == again.attributes["id"] == hashlib.sha256(b'{"s": "/s"}').hexdigest()


def test_attributes_from_the_body() -> None:
    stripe = codec(**STRIPE, extensions={"live": "{/livemode}", "item": "{/data/items/1/a~1b}", "none": "{/nothing}"})
    body = {"id": "evt_1", "type": "charge.paid", "created": 1700000000, "livemode": False}
    event = only(stripe, post({**body, "data": {"items": [0, {"a/b": "x"}]}}))
    assert event.attributes == {
        "specversion": "1.0",
        "id": "evt_1",
        "source": "https://stripe.com/",
        "type": "com.stripe.charge.paid",
        "time": "2023-11-14T22:13:20Z",
        "live": "false",
        "item": "x",
    }


def test_without_id_each_delivery_gets_one() -> None:
    plain = codec(type="t", source="/s")
    ids = {only(plain, post(b"anything", content_type="text/plain")).attributes["id"] for _ in range(3)}
    assert len(ids) == 3


def test_no_body_is_no_data() -> None:
    assert only(codec(type="t", source="/s"), post(b"")).data is None


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        (post({"type": "t"}), "/id in the body is missing, from which the event gets its id"),
        (post({"type": "t", "id": ""}), "/id in the body is missing"),
        (post({"type": "t", "id": None}), "/id in the body is missing"),
        (post({"type": "t", "id": {"a": 1}}), "/id in the body is missing"),
        (post({"type": "t", "id": "a\nb"}), "id contains the character U+000A"),
        (post({"type": "t", "id": "x" * 5000}), "/id has more than 4096 characters"),
        (post({"type": "t", "id": "1", "created": "today"}), "time 'today' is not an RFC 3339 date"),
        (post(b"a=b"), "the body is not JSON"),
        (post(b"[" * 100_000), "the body is not JSON"),
        (post({"type": "t", "id": "1"}, content_type="nonsense"), "datacontenttype 'nonsense'"),
    ],
)
def test_what_is_no_such_webhook_is_refused(message: Message, detail: str) -> None:
    with pytest.raises(Refused, match=re.escape(detail)) as error:
        codec(**STRIPE).decode(message)
    assert error.value.status == 400


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"type": ""}, "type"),
        ({"type": "{"}, "brace"),
        ({"type": "{a b}"}, "neither a header field"),
        ({"id": "{/a~2}"}, "no JSON pointer"),
        ({"extensions": {"time": "x"}}, "no extension"),
        ({"extensions": {"Upper": "x"}}, "extensions"),
    ],
)
def test_wrong_options_are_faults(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        codec(**{**STRIPE, **changes})


def test_it_only_reads() -> None:
    with pytest.raises(Refused, match="only reads"):
        codec(**STRIPE).encode(Event({}))


@pytest.mark.slow
@given(st.binary(max_size=200), st.dictionaries(st.sampled_from(["x-a", "content-type"]), st.binary(max_size=30)))
@examples(200)
def test_every_event_is_valid(body: bytes, headers: dict[str, bytes]) -> None:
    """Whatever comes is refused, or becomes an event that the shipped codec writes and reads back."""
    template = codec(type="t", source="/{x-a}", subject="{/0}", extensions={"a": "{/a}"})
    try:
        event = only(template, Message([(n.encode(), v) for n, v in headers.items()], body))
    except Refused:
        return
    shipped = CONTEXT.build(CodecRef("cloudevents"), binding=HTTP)
    [back] = shipped.decode(shipped.encode(event))
    assert back.attributes == event.attributes
