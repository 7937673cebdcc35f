"""Events under Fn's 0.1 names, read and written, and what becomes of them in 1.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gateway_cloudevents.plugin
import gateway_fn.plugin
import pytest
from gateway_cloudevents.bindings import HTTP, KAFKA
from gateway_fn.convert import converted
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.config.registry import Registry
from gateway_core.contract.component import Binding, BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec
from gateway_core.contract.normal_form import RENAMED

KIND = b"application/cloudevents+json"
EXAMPLE: dict[str, Any] = {
    "cloudEventsVersion": "0.1",
    "eventType": "com.example.someevent",
    "eventTypeVersion": "1.0",
    "source": "/mycontext",
    "eventID": "A234-1234-1234",
    "eventTime": "2018-04-05T17:31:00Z",
    "schemaURL": "http://example.com/schema",
    "extensions": {"comExampleExtension": "value", "map": {"a": [1, True, None], "b": {"c": "d"}}, "n": 5, "ok": False},
    "contentType": "application/json",
    "data": {"appinfoA": "abc", "appinfoB": 123, "appinfoC": True},
}


def codec(lenient: bool = False, binding: Binding = HTTP) -> Codec:
    registry = Registry()
    registry.add("cloudevents", gateway_cloudevents.plugin)
    registry.add("fn", gateway_fn.plugin)
    context = BuildContext("test", Path(), FakeClock(), registry, binding=binding)
    built: Codec = registry.build(CodecRef("fn", {"lenient": lenient}), context)
    return built


def message(members: dict[str, Any] | bytes, kind: bytes = KIND) -> Message:
    return Message([(b"content-type", kind)], members if isinstance(members, bytes) else json.dumps(members).encode())


def read(members: dict[str, Any] | bytes, lenient: bool = False) -> Event:
    (event,) = codec(lenient).decode(message(members))
    return event


def write(event: Event) -> dict[str, Any]:
    made = codec().encode(event)
    assert made.header(b"content-type") == KIND + b"; charset=utf-8"
    written: dict[str, Any] = json.loads(made.body or b"")
    return written


@pytest.mark.spec("FN-01")
@pytest.mark.parametrize("kind", [KIND, KIND.upper() + b" ; charset=utf-8"])
def test_an_event_of_0_1_comes_out_as_it_went_in(kind: bytes) -> None:
    (event,) = codec().decode(message(EXAMPLE, kind))
    assert event.attributes == {k: v for k, v in EXAMPLE.items() if k != "data"}
    assert (event.data, event.json_data) == (json.dumps(EXAMPLE["data"]).encode(), False)
    assert write(event) == EXAMPLE


@pytest.mark.spec("FN-01")
def test_a_record_keeps_its_key() -> None:
    (event,) = codec(binding=KAFKA).decode(Message([(b"content-type", KIND)], json.dumps(EXAMPLE).encode(), b"k"))
    assert event.key == codec().encode(event).key == b"k"


DATA = {
    "json, byte for byte": ("application/json", b'{"a": 1.0,  "b":[]}'),
    "json without a type": (None, b'"text"'),
    "text": ("text/plain", "Grüße\n".encode()),
    "empty text": ("text/plain", b""),
    "bytes": ("application/octet-stream", bytes(range(256))),
    "no bytes": ("image/png", b""),
    "another charset": ('text/plain; charset="utf-16"', "a€".encode("utf-16")),
    "xml": ("image/svg+xml", b"<svg/>"),
    "an object under a type that is not JSON": ("image/png", b'{"a":1}'),
}


@pytest.mark.spec("FN-01")
@pytest.mark.parametrize(("kind", "data"), DATA.values(), ids=DATA.keys())
def test_data_of_every_type_comes_out_as_it_went_in(kind: str | None, data: bytes) -> None:
    attributes = {k: v for k, v in EXAMPLE.items() if k not in ("data", "contentType")}
    event = Event(attributes | ({"contentType": kind} if kind else {}), data, json_data=kind is None)
    made = codec().encode(event).body or b""
    assert read(made) == event
    assert (data in made) or kind not in (None, "application/json")


@pytest.mark.parametrize("data", [b"\x00", b"not JSON"])
def test_bytes_without_a_type_are_written_as_bytes(data: bytes) -> None:
    event = Event({k: v for k, v in EXAMPLE.items() if k not in ("data", "contentType")}, data)
    again = read(codec().encode(event).body or b"")
    assert (again.data, again.attributes["contentType"]) == (data, "application/octet-stream")


def test_what_the_gateway_has_set_goes_out_as_an_extension() -> None:
    event = read(EXAMPLE).with_attributes(knativebrokerttl=3)
    assert write(event)["extensions"] == {**EXAMPLE["extensions"], "knativebrokerttl": 3}


BROKEN: dict[str, tuple[dict[str, Any] | bytes, str]] = {
    **{f"no {name}": ({k: v for k, v in EXAMPLE.items() if k != name}, name) for name in ("eventType", "eventID")},
    **{f"empty {name}": (EXAMPLE | {name: ""}, name) for name in ("eventType", "source", "eventID")},
    "another version": (EXAMPLE | {"cloudEventsVersion": "0.2"}, "cloudEventsVersion"),
    "a number for text": (EXAMPLE | {"eventID": 1}, "eventID"),
    "extensions not an object": (EXAMPLE | {"extensions": [1]}, "extensions"),
    "no object": (b"[]", ""),
    "no JSON": (b'{"cloudEventsVersion":', ""),
    "no UTF-8": (b'{"cloudEventsVersion": "\xff"}', ""),
    "too deep": (b'{"a":' * 100_000, ""),
}


@pytest.mark.spec("FN-01")
@pytest.mark.parametrize(("body", "attribute"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_event_is_refused(body: dict[str, Any] | bytes, attribute: str) -> None:
    with pytest.raises(Refused) as refused:
        read(body)
    assert (refused.value.status, refused.value.attribute) == (400, attribute)


@pytest.mark.spec("SAFE-105")
def test_a_time_that_is_none_costs_no_event() -> None:
    event = read(EXAMPLE | {"eventTime": "yesterday"})
    assert event.attributes == {k: v for k, v in read(EXAMPLE).attributes.items() if k != "eventTime"}


def test_only_functions_may_leave_attributes_out() -> None:
    for members in ({"data": 1}, {"specversion": "1.0", "data": 1}, {"cloudEventsVersion": "0.1"}):
        with pytest.raises(Refused):
            read(members)
        event = read(members, lenient=True)
        assert event.attributes.get("eventType", event.attributes.get("type")) == "io.fnproject.httpResponse"


def test_other_versions_and_modes_are_those_of_the_cloudevents_codec() -> None:
    event = read({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"a": 1}})
    assert (event.attributes["id"], event.data) == ("1", b'{"a": 1}')
    assert write(event)["specversion"] == "1.0"
    binary = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t")]
    assert codec().decode(Message(binary, b""))[0].attributes["type"] == "t"
    with pytest.raises(Refused):
        codec(lenient=True).decode(Message([(b"content-type", b"text/plain")], b"no event"))


# -- 0.1 and 1.0 ------------------------------------------------------------------------------------------------------

FN_EXTENSIONS = {
    "ioFnProjectDeadline": "2018-01-30T16:52:39.786Z",
    "ioFnProjectHttpReq": {"method": "GET", "headers": {"A": ["b"]}, "requestURL": "/"},
}


@pytest.mark.spec("FN-01")
def test_an_event_goes_to_1_0_and_comes_back() -> None:
    event = read(EXAMPLE | {"extensions": FN_EXTENSIONS})
    there = converted(event, "1.0")
    assert there.attributes == {
        "specversion": "1.0",
        "id": "A234-1234-1234",
        "source": "/mycontext",
        "type": "com.example.someevent",
        "time": "2018-04-05T17:31:00Z",
        "dataschema": "http://example.com/schema",
        "datacontenttype": "application/json",
        "eventtypeversion": "1.0",
        "iofnprojectdeadline": "2018-01-30T16:52:39.786Z",
        "iofnprojecthttpreq": '{"method":"GET","headers":{"A":["b"]},"requestURL":"/"}',
    }
    assert converted(there, "0.1") == event
    assert write(there)["data"] == EXAMPLE["data"]


@pytest.mark.parametrize(
    ("attributes", "type_key"),
    [
        ({"specversion": "0.3", "id": "1", "source": "/s", "type": "t", "datacontenttype": "text/css"}, "type"),
        ({"specversion": "0.2", "id": "1", "source": "/s", "type": "t", "contenttype": "text/css"}, "type"),
    ],
)
def test_events_of_other_versions_are_converted_too(attributes: dict[str, Any], type_key: str) -> None:
    made = converted(Event(attributes | {"own": 1}, b"a{}"), "0.1")
    assert made.attributes == {
        "cloudEventsVersion": "0.1",
        "eventType": attributes[type_key],
        "source": "/s",
        "eventID": "1",
        "contentType": "text/css",
        "extensions": {"own": 1},
    }
    assert converted(Event(attributes, b"a{}"), "1.0").attributes["datacontenttype"] == "text/css"


def test_extensions_that_1_0_can_not_have_change_their_form() -> None:
    odd = {"My-Ext": {"a": 1}, "big": 2**31, "n": 1, "ok": True, "none": None, "ünï": "x"}
    made = converted(read(EXAMPLE | {"extensions": odd}), "1.0").attributes
    assert (made["myext"], made["big"], made["n"], made["ok"]) == ('{"a":1}', "2147483648", 1, True)
    assert "none" not in made
    assert made["n"] == 1


def test_as_is_changes_nothing() -> None:
    event = read(EXAMPLE)
    assert converted(event, "as-is") is event
    assert converted(event, "0.1") is event


# -- properties -------------------------------------------------------------------------------------------------------

text = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
# an extension with the name of an attribute of any version, but for its spelling, is refused
TAKEN = {*map(str.lower, [*EXAMPLE, *RENAMED]), *RENAMED.values(), "subject", "datacontentencoding"}
names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9]{0,10}", fullmatch=True).filter(lambda name: name.lower() not in TAKEN)
PLAIN = st.characters(categories=["L", "N", "P", "Zs"])
CODEC = codec()


@pytest.mark.slow
@pytest.mark.spec("FN-01")
@given(
    st.dictionaries(names, json_values, min_size=1, max_size=4).filter(lambda e: len({*map(str.lower, e)}) == len(e)),
    st.text(PLAIN, min_size=1),
    st.sampled_from(list(DATA)),
    st.binary(),
)
def test_what_is_written_is_read_again(extensions: dict[str, Any], id: str, kind: str, data: bytes) -> None:
    content_type = DATA[kind][0]
    octets = content_type in ("application/octet-stream", "image/png")
    attributes = {**EXAMPLE, "eventID": id, "extensions": extensions, "contentType": content_type}
    del attributes["data"]
    if content_type is None:
        del attributes["contentType"]
    event = Event(attributes, data if octets else DATA[kind][1], content_type is None)
    assert CODEC.decode(CODEC.encode(event)) == [event]


@given(st.binary() | json_values.map(lambda v: json.dumps(v).encode()) | st.dictionaries(
    st.sampled_from([*EXAMPLE, "specversion"]), json_values).map(lambda v: json.dumps(v).encode()))  # fmt: skip
def test_anything_is_an_event_or_refused(body: bytes) -> None:
    for made in (CODEC, LENIENT):
        try:
            (event,) = made.decode(message(body))
        except Refused:
            continue
        made.encode(event)


LENIENT = codec(lenient=True)
