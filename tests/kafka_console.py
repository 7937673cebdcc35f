"""Kafka's own console tools, to see and to write records with a client that is not ours.

The console consumer prints a record as text; with `BytesDeserializer` that text says exactly which bytes it was (what
is not printable ASCII is `\\xNN`). Each call starts a Java, which takes about a second: read many records at once.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from gateway_java import jars, java
from gateway_java.kafka import VERSION

LIMIT_S = 60.0
# None of these is printed by BytesDeserializer, and no header of ours has one in its name.
COLUMN, HEADER, LINE = "\x1f", "\x1e", "\x1d\n"
# The consumer prints its marker for null as if the record had these bytes: so no record shall have them.
NULL = f"null-{uuid.uuid4().hex}"
_ESCAPE = re.compile(rb"\\x([0-9A-F]{2})")
_BYTES = "org.apache.kafka.common.serialization.BytesDeserializer"


class RawRecord(NamedTuple):
    """A record, byte for byte. A null key, value or header value is None. Header names with `:` are not told apart."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


def consume(bootstrap: str, topic: str, count: int, *, limit_s: float = LIMIT_S) -> list[RawRecord]:
    """The first `count` records of a topic, by partition and offset. Fails where so many do not come."""
    said = _run(
        *_consumer(bootstrap, topic),
        *("--max-messages", str(count), "--timeout-ms", str(int(limit_s * 1000))),
        limit_s=limit_s + 30,
    )
    records = [_record(line) for line in said.stdout.split(LINE.encode())[:-1]]
    assert len(records) == count, f"{len(records)} of {count} records of {topic}: {records}\n{said.stderr.decode()}"
    return sorted(records)


class Follower:
    """`with Follower(bootstrap, topic) as records:` reads a topic from its beginning and keeps reading. One Java for
    many looks. The topic comes into being where it is not there."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._arguments = _consumer(bootstrap, topic)
        self._changed = threading.Condition()
        self._read: list[RawRecord] = []

    def __enter__(self) -> Follower:
        self._process = subprocess.Popen(
            **_call(*self._arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._records, self._complaints)]
        self._said = b""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def wait_for(
        self, wanted: Callable[[RawRecord], bool], count: int = 1, limit_s: float = LIMIT_S
    ) -> list[RawRecord]:
        """The records that are wanted, in the order they came, once there are so many (or more)."""

        def found() -> list[RawRecord]:
            return [record for record in self._read if wanted(record)]

        with self._changed:
            enough = self._changed.wait_for(lambda: len(found()) >= count, limit_s)
            assert enough, f"{len(found())} of {count} records, among {self._read}\n{self._said.decode()}"
            return found()

    def _records(self) -> None:
        pipe, text = self._process.stdout, b""
        assert pipe is not None
        while more := os.read(pipe.fileno(), 1 << 16):
            *lines, text = (text + more).split(LINE.encode())
            with self._changed:
                self._read += map(_record, lines)
                self._changed.notify_all()

    def _complaints(self) -> None:
        pipe = self._process.stderr
        assert pipe is not None
        while more := os.read(pipe.fileno(), 1 << 16):
            self._said += more


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[str | None, str | None, Sequence[tuple[str, str | None]]]],
) -> None:
    """Writes records (key, value, headers); acknowledged when it returns. Texts have no line breaks."""
    options = {
        "parse.key": "true",
        "parse.headers": "true",
        "key.separator": COLUMN,
        "headers.delimiter": COLUMN + COLUMN,
        "headers.separator": HEADER,
        "headers.key.separator": ":",
        "null.marker": NULL,
    }
    lines = [
        (HEADER.join(f"{n}:{_text(v)}" for n, v in headers) or NULL)
        + (COLUMN + COLUMN + _text(key) + COLUMN + _text(value) + "\n")
        for key, value, headers in records
    ]
    said = _run(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--sync", "--timeout", "0"),
        *(part for name, value in options.items() for part in ("--property", f"{name}={value}")),
        given="".join(lines).encode(),
    )
    assert b"ERROR" not in said.stderr, said.stderr.decode()


def _consumer(bootstrap: str, topic: str) -> list[str]:
    options = {
        "print.partition": "true",
        "print.offset": "true",
        "print.timestamp": "false",
        "print.headers": "true",
        "print.key": "true",
        "print.value": "true",
        "key.separator": COLUMN,
        "headers.separator": HEADER,
        "line.separator": LINE,
        "null.literal": NULL,
        "key.deserializer": _BYTES,
        "value.deserializer": _BYTES,
        "headers.deserializer": _BYTES,
    }
    return [
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *(part for name, value in options.items() for part in ("--property", f"{name}={value}")),
    ]


def _record(line: bytes) -> RawRecord:
    partition, offset, headers, key, value = line.split(COLUMN.encode())
    pairs = [] if headers == b"NO_HEADERS" else [h.split(b":", 1) for h in headers.split(HEADER.encode())]
    return RawRecord(
        int(partition.removeprefix(b"Partition:")),
        int(offset.removeprefix(b"Offset:")),
        _bytes(key),
        _bytes(value),
        [(name, _bytes(text)) for name, text in pairs],
    )


def _bytes(text: bytes) -> bytes | None:
    return None if text == NULL.encode() else _ESCAPE.sub(lambda m: bytes.fromhex(m[1].decode()), text)


def _text(value: str | None) -> str:
    return NULL if value is None else value


@functools.cache
def _java() -> tuple[str, str]:
    """The Java, and the class path of a broker with its tools."""
    found = java.find()
    parse = jars.Artifact.parse
    wanted = [parse(f"org.apache.kafka:{name}:{VERSION}", transitive=True) for name in ("kafka_2.13", "kafka-tools")]
    return found.executable, os.pathsep.join(map(str, jars.fetch(wanted, found)))


def _call(main: str, *arguments: str) -> dict[str, Any]:
    """What `subprocess` is to be called with."""
    executable, classes = _java()
    quick = ("-Xmx128m", *java.QUICK)
    return {"args": [executable, *quick, main, *arguments], "env": {**os.environ, "CLASSPATH": classes}}


def _run(
    main: str, *arguments: str, given: bytes = b"", limit_s: float = LIMIT_S
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(**_call(main, *arguments), input=given, capture_output=True, timeout=limit_s)
    assert done.returncode == 0, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    return done
