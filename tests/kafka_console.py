"""Kafka's own console tools, to see and to write records with a client that is not ours.

The console consumer prints a record as text; with `BytesDeserializer` that text says exactly which bytes it was (what
is not printable ASCII is `\\xNN`). Each call starts a Java, which takes about a second: read many records at once.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway_java import jars, java
from gateway_java.kafka import VERSION

LIMIT_S = 60.0
# None of these is printed by BytesDeserializer, and no header of ours has one in its name.
COLUMN, HEADER, LINE = "\x1f", "\x1e", "\x1d\n"
# The consumer prints what stands for null as if the record had these bytes: so no record shall have them.
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
    said = _run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", str(int(limit_s * 1000))),
        *(part for name, value in options.items() for part in ("--property", f"{name}={value}")),
        limit_s=limit_s + 30,
    )
    records = [_record(line) for line in said.stdout.split(LINE.encode())[:-1]]
    assert len(records) == count, f"{len(records)} of {count} records of {topic}: {records}\n{said.stderr.decode()}"
    return sorted(records)


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


def _run(
    main: str, *arguments: str, given: bytes = b"", limit_s: float = LIMIT_S
) -> subprocess.CompletedProcess[bytes]:
    executable, classes = _java()
    quick = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    env = {**os.environ, "CLASSPATH": classes}
    done = subprocess.run(
        [executable, *quick, main, *arguments], input=given, capture_output=True, timeout=limit_s, env=env
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    return done
