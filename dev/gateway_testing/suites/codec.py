"""What every CloudEvents codec must do (`gateway_core.contract.interfaces.Codec`)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gateway_cloudevents.bindings import HTTP

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

from .. import vectors
from ..vectors import Refusal, Vector, same_data, texts
from .kit import Kit, Suite

DATA = {
    "none": None,
    "nothing": b"",
    "text": b"text",
    "zero byte": b"a\x00b",
    "no UTF-8": b"\xff\xfe\x80",
    "JSON": b'{"a": [1, 2.50, null]}',
    "spaces": b"  \r\n ",
    "all bytes": bytes(range(256)),
}
TYPES = ("application/json", "text/plain", "application/octet-stream", None)


def _names(cases: Any) -> list[str]:
    return [c.name for c in cases]


class CodecSuite(Suite):
    """Subclass it and write `build`:

        class TestMine(CodecSuite):
            def build(self, kit):
                return kit.codec("mine", binding=self.binding)

    `binding` is that of the transport. `versions` are the supported CloudEvents versions, `modes` the content modes
    that it reads, including "batch" if supported.
    """

    binding: Binding = HTTP
    versions: tuple[str, ...] = ("1.0", "0.3")
    modes: tuple[str, ...] = ("binary", "structured", "batch")

    def build(self, kit: Kit) -> Codec:
        raise NotImplementedError

    @pytest.fixture
    def kit(self) -> Kit:
        return Kit(Path("unused"))  # codecs need no folder, and creating one per case would take longer than the case

    @pytest.fixture
    def codec(self, kit: Kit) -> Codec:
        return self.build(kit)

    @pytest.mark.parametrize("vector", vectors.VECTORS, ids=_names(vectors.VECTORS))
    def test_it_reads_binary_mode(self, codec: Codec, vector: Vector) -> None:
        if self._knows(vector, "binary"):
            _same(codec.decode(vector.binary(self.binding)), [vector.event])

    @pytest.mark.parametrize("vector", vectors.VECTORS, ids=_names(vectors.VECTORS))
    def test_it_reads_structured_mode(self, codec: Codec, vector: Vector) -> None:
        if self._knows(vector, "structured"):
            _same(codec.decode(vector.structured()), [vector.event], exact=False)

    def test_it_reads_a_batch(self, codec: Codec) -> None:
        known = [v for v in vectors.VECTORS if self._knows(v, "batch")]
        if known:
            _same(codec.decode(vectors.batch(known)), [v.event for v in known], exact=False)
            assert codec.decode(vectors.batch([])) == []

    @pytest.mark.parametrize("vector", vectors.VECTORS, ids=_names(vectors.VECTORS))
    def test_it_writes_as_the_binding_says(self, codec: Codec, vector: Vector) -> None:
        if vector.version not in self.versions:
            return
        message = codec.encode(vector.event)
        kind = message.header(b"content-type") or b""
        if kind.lower().startswith(b"application/cloudevents"):
            written = msgspec.json.decode(message.body or b"")
            assert written == msgspec.json.decode(vector.document)
        else:
            wanted = vector.binary(self.binding)
            assert sorted(message.headers) == sorted(wanted.headers)
            assert (message.body or b"") == (wanted.body or b"")

    @pytest.mark.parametrize("vector", vectors.VECTORS, ids=_names(vectors.VECTORS))
    def test_it_reads_what_it_writes_and_leaves_the_event_alone(self, codec: Codec, vector: Vector) -> None:
        if vector.version in self.versions:
            event = vector.with_id("again").event
            before = dict(event.attributes)
            _same(codec.decode(_carried(codec.encode(event))), [event])
            assert event.attributes == before

    @pytest.mark.parametrize("kind", TYPES)
    @pytest.mark.parametrize("data", DATA.values(), ids=DATA)
    def test_data_comes_back_byte_for_byte(self, codec: Codec, data: bytes | None, kind: str | None) -> None:
        attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
        if kind is not None:
            attributes["datacontenttype"] = kind
        (found,) = codec.decode(_carried(codec.encode(Event(attributes, data))))
        assert (found.data or b"") == (data or b"")

    @pytest.mark.parametrize("case", vectors.REQUIRED, ids=_names(vectors.REQUIRED))
    def test_it_names_a_required_attribute_that_is_missing_or_empty(self, codec: Codec, case: Refusal) -> None:
        if case.name[:3] in self.versions:
            assert self._refusal(codec, case).attribute == case.attribute

    @pytest.mark.parametrize("case", vectors.UNREADABLE, ids=_names(vectors.UNREADABLE))
    def test_it_refuses_what_is_no_event(self, codec: Codec, case: Refusal) -> None:
        self._refusal(codec, case)

    @pytest.mark.parametrize("case", vectors.UNKNOWN_VERSIONS, ids=_names(vectors.UNKNOWN_VERSIONS))
    def test_it_refuses_versions_that_do_not_exist(self, codec: Codec, case: Refusal) -> None:
        self._refusal(codec, case)

    @pytest.mark.parametrize("message", vectors.HOSTILE_MESSAGES.values(), ids=vectors.HOSTILE_MESSAGES)
    def test_it_reads_or_refuses_whatever_comes(self, codec: Codec, message: Message) -> None:
        refusals: list[Refused] = []
        try:
            found = codec.decode(message)
        except Refused as e:
            refusals, found = [e], []
        assert all(e.detail and 400 <= e.status < 500 for e in refusals)
        assert all(isinstance(event, Event) for event in found)

    @pytest.mark.parametrize("event", vectors.HOSTILE_EVENTS.values(), ids=vectors.HOSTILE_EVENTS)
    def test_it_writes_or_refuses_every_event(self, codec: Codec, event: Event) -> None:
        with suppress(Refused):
            message = codec.encode(event)
            assert all(isinstance(n, bytes) and isinstance(v, bytes) for n, v in message.headers)

    # -- parts --------------------------------------------------------------------------------------------------------

    def _knows(self, vector: Vector, mode: str) -> bool:
        return vector.version in self.versions and mode in self.modes

    def _refusal(self, codec: Codec, case: Refusal) -> Refused:
        with pytest.raises(Refused) as caught:
            codec.decode(case.message(self.binding))
        assert 400 <= caught.value.status < 500
        assert caught.value.detail
        return caught.value


def _carried(message: Message) -> Message:
    """The message as the remote receives it: a new object, header names in lower case."""
    return Message([(n.lower(), v) for n, v in message.headers], message.body, message.key)


def _same(found: list[Event], wanted: list[Event], *, exact: bool = True) -> None:
    """Compares attributes as text, because headers have no types."""
    assert [texts(e) for e in found] == [texts(e) for e in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert same_data(one.data, other.data, exact=exact), (one.data, other.data)
