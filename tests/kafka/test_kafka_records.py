"""Records are the same whether or not the codec writes their headers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_kafka.records import Written, writer
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, CodecRef, KeyMapperRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message

GOOD = {"specversion": "1.0", "id": "A234", "source": "/mycontext", "type": "com.example.someevent"}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACED = Event(GOOD, b"1", trace=f"{PARENT} a=b")


class Plain:
    """A codec with no more than the interface."""

    def __init__(self, codec: Any) -> None:
        self.encode, self.decode = codec.encode, codec.decode


class PlainCodecs:
    """Builds with the registry, and hides what a codec has beyond the interface."""

    def __init__(self) -> None:
        self._registry = Registry.installed()

    def build(self, ref: Any, context: BuildContext) -> Any:
        found = self._registry.build(ref, context)
        return Plain(found) if isinstance(ref, CodecRef) else found


def write(event: Event, registry: Any = None, key: str = "record", **options: Any) -> Written:
    context = BuildContext("test", Path(), FakeClock(), registry or Registry.installed())
    return writer(CodecRef("cloudevents", options or None), KeyMapperRef(key), context)(event)


@pytest.mark.parametrize("key", ["record", "partitionkey", "none"])
@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize(
    "event",
    [
        Event(GOOD),
        Event(GOOD, b"", key=b"k"),
        Event(GOOD, b"5", True, b""),
        Event({"datacontenttype": "text/plain", "partitionkey": "p", "n": 5, "b": True, **GOOD}, b"x"),
        Event({**GOOD, "datacontenttype": "application/cloudevents+json"}, b"{}"),
        Event({"cloudEventsVersion": "0.1", "eventID": "1", "source": "/", "eventType": "t"}, b"x", key=b"k"),
        TRACED,
    ],
)
def test_a_record_is_the_same_by_any_codec(event: Event, mode: str, key: str) -> None:
    assert write(event, key=key, mode=mode) == write(event, PlainCodecs(), key=key, mode=mode)


def test_a_record_has_the_parts_of_its_event() -> None:
    event = Event({**GOOD, "datacontenttype": "text/plain"}, b"5", key=b"k")
    headers = [(f"ce_{name}", value.encode()) for name, value in GOOD.items()]
    assert write(event) == (b"k", b"5", [*headers, ("content-type", b"text/plain")])
    assert write(Event(GOOD)) == (None, None, headers)


def test_a_traced_record_has_the_trace() -> None:
    assert write(TRACED)[2][-2:] == [("traceparent", PARENT.encode()), ("tracestate", b"a=b")]


@pytest.mark.parametrize(
    "more",
    [
        {"subject": "\ud800", "a-b": "1"},
        {"a-b": "1"},
        {"datacontenttype": "text/\x01", "a-b": "1"},
    ],
)
def test_what_no_record_can_hold_is_refused_alike(more: dict[str, str]) -> None:
    refusals = []
    for registry in (None, PlainCodecs()):
        with pytest.raises(Refused) as refused:
            write(Event({**GOOD, **more}, b"1"), registry)
        refusals.append((refused.value.detail, refused.value.attribute, refused.value.rule))
    assert refusals[0] == refusals[1]


def test_the_key_mapper_is_asked_once_per_event() -> None:
    asked: list[Event] = []

    class Keys(PlainCodecs):
        def build(self, ref: Any, context: BuildContext) -> Any:
            if isinstance(ref, CodecRef):
                return self._registry.build(ref, context)
            return lambda event: asked.append(event) or b"mine"

    for event in (Event(GOOD, key=b"k"), Event({**GOOD, "specversion": "0.3"}), TRACED):
        assert write(event, Keys())[0] == b"mine"
    assert len(asked) == 3


def test_a_codec_may_write_anything() -> None:
    class Own(PlainCodecs):
        def build(self, ref: Any, context: BuildContext) -> Any:
            found = super().build(ref, context)
            if isinstance(ref, CodecRef):
                found.encode = lambda event: Message([(b"own", b"1"), (b"own", b"2")], b"body", b"codec")
            return found

    assert write(Event(GOOD, b"1", key=b"k"), Own()) == (b"k", b"body", [("own", b"1"), ("own", b"2")])
