"""The codec `webhook`: what becomes of a plain POST."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from gateway_cloudevents.bindings import HTTP
from gateway_serving import process_facts
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec
from tests.budget import examples
from tests.installed import REGISTRY

pytestmark = pytest.mark.spec("HM-20")

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
        (post(b"a=b"), "the body is not JSON"),
        (post(b"[" * 100_000), "the body is not JSON"),
        (post(b"type=t&id=%FF", content_type="application/x-www-form-urlencoded"), "the body is not a form"),
        (post(b"payload=a", content_type="application/x-www-form-urlencoded"), "the body is not JSON"),
    ],
)
def test_what_is_no_such_webhook_is_refused(message: Message, detail: str) -> None:
    with pytest.raises(Refused, match=re.escape(detail)) as error:
        codec(**STRIPE).decode(message)
    assert error.value.status == 400


OPTIONAL: dict[str, tuple[Any, dict[str, str]]] = {
    "time": ({"created": "today"}, {}),
    "time too late": ({"created": 10**15}, {}),
    "too long": ({"live": "x" * 5000}, {}),
    "control character": ({"live": "a\nb"}, {}),
    "half a surrogate pair": ({"live": "\ud800"}, {}),
    "content type": ({}, {"content_type": "nonsense"}),
    "content type with a control character": ({}, {"content_type": "text/plain;\x07"}),
    "header field that is no text": ({}, {"x_word": "\ud800"}),
}


@pytest.mark.spec("SAFE-105")
@pytest.mark.parametrize(("more", "headers"), OPTIONAL.values(), ids=OPTIONAL.keys())
def test_an_invalid_optional_value_costs_no_webhook(more: dict[str, Any], headers: dict[str, str]) -> None:
    made = codec(**STRIPE, extensions={"live": "{/live}", "good": "{/good}", "word": "{x-word}"})
    fields = [
        (name.replace("_", "-").encode(), value.encode(errors="surrogatepass")) for name, value in headers.items()
    ]
    before = process_facts.facts()["values_left_out"]
    body = json.dumps({"type": "t", "id": "1", "good": "x", **more}).encode()
    event = only(made, Message(fields, body, method="POST", url="/"))
    assert event.attributes == {
        "specversion": "1.0",
        "id": "1",
        "source": "https://stripe.com/",
        "type": "com.stripe.t",
        "good": "x",
    }
    assert process_facts.facts()["values_left_out"] == before + 1


@pytest.mark.spec("SAFE-105")
def test_a_body_that_is_no_json_costs_only_what_is_read_from_it() -> None:
    event = only(codec(type="t", source="/s", id="{x-id}", subject="{/a}"), post(b"\x00", x_id="1"))
    assert event.attributes == {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    assert event.data == b"\x00"


GITHUB = {"type": "com.github.{x-github-event}", "source": "{/repository/url}", "id": "{x-github-delivery}"}


@pytest.mark.spec("HM-20")
def test_githubs_default_is_a_form_with_the_json_in_a_field() -> None:
    payload = {"repository": {"url": "https://api.github.com/repos/o/r"}, "text": "a+b & c"}
    body = urlencode({"payload": json.dumps(payload)}).encode()
    form = "application/x-www-form-urlencoded"
    event = only(codec(**GITHUB), post(body, content_type=form, x_github_event="push", x_github_delivery="d"))
    assert event.attributes == {
        "specversion": "1.0",
        "id": "d",
        "type": "com.github.push",
        "datacontenttype": form,
        "source": "https://api.github.com/repos/o/r",
    }
    assert event.data == body


def test_the_fields_of_another_form_are_members() -> None:
    made = codec(type="com.slack.{/command}", source="https://slack.com/{/team_id}", id="{/trigger_id}")
    form = "application/x-www-form-urlencoded; charset=utf-8"
    event = only(made, post(b"command=%2Fdeploy&team_id=T%201&trigger_id=a+b&text=", content_type=form))
    assert event.attributes["type"] == "com.slack./deploy"
    assert (event.attributes["source"], event.attributes["id"]) == ("https://slack.com/T%201", "a b")


@pytest.mark.parametrize(
    ("template", "value", "source"),
    [
        ("https://h/{/s}", "my file", "https://h/my%20file"),
        ("https://h/{/s}", "octo/repo", "https://h/octo/repo"),
        ("https://h/{/s}", "a?b#c%20d", "https://h/a%3Fb%23c%2520d"),
        ("https://h/{/s}?x={/s}", "é\n", "https://h/%C3%A9%0A?x=%C3%A9%0A"),
        ("{/s}", "https://h/a%20b?c=d#e", "https://h/a%20b?c=d#e"),
        ("{/s}/x", "https://h/a b%zz", "https://h/a%20b%25zz/x"),
    ],
)
def test_parts_of_a_source_are_percent_encoded(template: str, value: str, source: str) -> None:
    event = only(codec(type="t", source=template), post({"s": value}))
    assert event.attributes["source"] == source


HARD = {
    "half a surrogate pair": b'{"type":"t","id":"1","o":"\\ud800"}',
    "nested deeply": b'{"o":' + b"[" * 1500 + b"]" * 1500 + b',"type":"t","id":"1"}',
    "byte-order mark": b'\xef\xbb\xbf{"type":"t","id":"1"}',
    "number out of range": b'{"type":"t","o":1e999,"id":"1"}',
    "integer of forty digits": b'{"type":"t","o":' + b"1" * 40 + b',"id":"1"}',
}


@pytest.mark.spec("SAFE-106")
@pytest.mark.parametrize("body", HARD.values(), ids=HARD.keys())
def test_other_values_in_the_body_cost_nothing(body: bytes) -> None:
    event = only(codec(**STRIPE, extensions={"deep": "{/o/0/0}"}), post(body))
    assert (event.attributes["id"], event.attributes["type"], event.data) == ("1", "com.stripe.t", body)


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
