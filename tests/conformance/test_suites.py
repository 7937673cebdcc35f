"""The suites of `gateway_testing.suites`, on the components that are shipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from gateway_cloudevents.bindings import KAFKA
from gateway_cloudevents.event_json import load
from gateway_testing.suites import (
    ChannelSuite,
    CodecSuite,
    FilterSuite,
    HttpRemote,
    KeyMapperSuite,
    Kit,
    Remote,
    RemoteSinkSuite,
    SinkSuite,
    SourceSuite,
)

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Channel, Codec, Filter, KeyMapper, Sink, Source


@pytest.mark.spec("DP-01", "DP-02", "BR-10", "BR-15", "BR-16")
class TestCloudEventsBinary(CodecSuite):
    def build(self, kit: Kit) -> Codec:
        return kit.codec("cloudevents", binding=self.binding)


class TestCloudEventsStructured(CodecSuite):
    def build(self, kit: Kit) -> Codec:
        return kit.codec("cloudevents", {"mode": "structured"}, binding=self.binding)


class TestCloudEventsOverKafka(CodecSuite):
    binding = KAFKA
    modes = ("binary", "structured")

    def build(self, kit: Kit) -> Codec:
        return kit.codec("cloudevents", binding=self.binding)


class TestHttpSink(RemoteSinkSuite):
    options: ClassVar[dict[str, Any]] = {}

    def remote(self, kit: Kit) -> HttpRemote:
        return HttpRemote()

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, HttpRemote)
        return kit.sink("http", {"url": remote.url, **self.options})

    def with_codec(self, kit: Kit, remote: Remote, codec: str) -> Sink:
        assert isinstance(remote, HttpRemote)
        return kit.sink("http", {"url": remote.url, **self.options, "codec": codec})


@pytest.mark.twin
class TestHttpxSink(TestHttpSink):
    options = {"client": "httpx"}


class TestStructuredHttpSink(TestHttpSink):
    options = {"codec": {"cloudevents": {"mode": "structured"}}}


class Lines:
    """The remote side of the file sink."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def events(self) -> list[Event]:
        return [load(line) for line in self.path.read_bytes().splitlines()]


class TestFileSink(SinkSuite):
    def remote(self, kit: Kit) -> Lines:
        return Lines(kit.folder / "events.jsonl")

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, Lines)
        return kit.sink("file", {"path": str(remote.path), "fsync": False})


class TestHttpSource(SourceSuite):
    def build(self, kit: Kit) -> Source:
        return kit.source("http", {"listen": "127.0.0.1:0", "path": "/in"})


@pytest.mark.twin
class TestHypercornSource(SourceSuite):
    def build(self, kit: Kit) -> Source:
        return kit.source("http", {"listen": "127.0.0.1:0", "server": "hypercorn"})


class TestLogChannel(ChannelSuite):
    def build(self, kit: Kit) -> Channel:
        return kit.channel("log")


def event(**attributes: Any) -> Event:
    return Event({"specversion": "1.0", "id": "1", "source": "/air/JFK", "type": "com.example.late", **attributes})


class Filters(FilterSuite):
    """Everything but the filter: it is about late departures, or about a count of five."""

    word = ""
    options: Any = None
    matching = [event(), event(n=5), event(subject="s")]
    others = [event(type="com.example.early"), event(type="other", n=5), event(type="")]

    def build(self, kit: Kit) -> Filter:
        return kit.filter(self.word, self.options)


LATE = {"type": "com.example.late"}


class TestExact(Filters):
    word, options = "exact", LATE


class TestPrefix(Filters):
    word, options = "prefix", {"type": "com.example.l", "source": "/air"}


class TestSuffix(Filters):
    word, options = "suffix", {"type": "late"}


class TestAll(Filters):
    word, options = "all", [{"exact": LATE}, {"prefix": {"source": "/"}}]


class TestAny(Filters):
    word, options = "any", [{"exact": LATE}, {"exact": {"type": "x"}}, {"prefix": {"type": "y"}}]


class TestNot(Filters):
    word, options = "not", {"any": [{"exact": {"type": "com.example.early"}}, {"not": {"exact": LATE}}]}


class TestData(Filters):
    word, options = "data", {"n": {"gt": 4, "lte": 5}, "s\\.t": ["x", None]}
    matching = [
        Event(dict(event(datacontenttype="application/json").attributes), data)
        for data in (b'{"n": 5, "s.t": null}', b'{"n": [1, 4.5], "s.t": ["x"]}')
    ]
    others = [
        event(),
        *(
            Event(dict(event(datacontenttype="application/json").attributes), data)
            for data in (b'{"n": 4, "s.t": "x"}', b'{"n": 5}', b'{"n": "5", "s.t": "x"}', b"{", b"")
        ),
    ]


class TestExactNumber(Filters):
    word, options = "exact", {"n": "5"}
    matching = [event(n=5), event(n="5")]
    others = [event(), event(n=6), event(n="05")]


class TestCesql(Filters):
    word, options = "cesql", "type LIKE '%late' AND source = '/air/JFK'"


del Filters


@pytest.mark.usefixtures("processes")
def test_the_testing_package_needs_no_pytest() -> None:
    code = "import sys; import gateway_testing, gateway_testing.vectors; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class KeyMappers(KeyMapperSuite):
    """Everything but the key mapper."""

    word = ""
    options: Any = None

    def build(self, kit: Kit) -> KeyMapper:
        return kit.key_mapper(self.word, self.options)


class TestPartitionKey(KeyMappers):
    word = "partitionkey"
    keys = [(event(partitionkey="a"), b"a"), (event(), None)]


class TestAttributeKey(KeyMappers):
    word, options = "attribute", {"name": "subject"}
    keys = [(event(subject="a"), b"a"), (event(subject=""), b""), (event(), None)]


class TestJsonPathKey(KeyMappers):
    word, options = "jsonpath", {"path": "$.a"}
    keys = [(Event(event(datacontenttype="application/json").attributes, b'{"a": "x"}'), b"x"), (event(), None)]


class TestRecordKey(KeyMappers):
    word = "record"
    keys = [(Event(event().attributes, key=b"\x00k"), b"\x00k"), (event(), None)]
