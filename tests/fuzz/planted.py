"""A fault in the code under each target that the fuzzer has to find: no seed provokes it.

A slow machine makes few tries, so each fault needs little luck: a byte or a word in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

RARE = re.compile(rb"[~!$'();@]")
"""Bytes that no seed has in its target. One of them is enough."""


def plant(name: str, target: Any, kind: str = "crash") -> None:
    """Breaks what the target checks. `kind` "hang" is for `http` alone."""
    PLANTS[name](target) if kind == "crash" else _http(target, hangs=True)


def _http(target: Any, hangs: bool = False) -> None:
    """A request raises, or hangs, whose target holds a rare byte."""
    from gateway_http.protocol import RequestReader

    real = RequestReader.on_url

    def on_url(self: Any, part: bytes) -> None:
        real(self, part)
        if RARE.search(self._target):
            while hangs:
                pass
            raise ZeroDivisionError

    RequestReader.on_url = on_url  # type: ignore[method-assign]


def _losing(kind: Any) -> None:
    """The last byte of a piece is lost if it is no ASCII."""
    real = kind.data_received

    def data_received(self: Any, data: bytes) -> None:
        real(self, data if data[-1] < 128 else data[:-1])

    kind.data_received = data_received


def _answer(target: Any) -> None:
    _losing(target.ClientConnection)


def _serving(target: Any) -> None:
    _losing(target.Http1Connection)


def _coding(target: Any) -> None:
    """Zeros at the end of a body without a coding are lost."""
    real = target.decoded

    def decoded(headers: Any, body: bytes, limit: int) -> Any:
        left, plain = real(headers, body, limit)
        return left, plain if plain is not body else plain.rstrip(b"\0")

    target.decoded = decoded


def _cloudevents(target: Any) -> None:
    """An attribute that is the empty text is dropped."""
    from gateway_cloudevents import codec

    real = codec._Codec.decode

    def decode(self: Any, message: Any) -> Any:
        events = real(self, message)
        for event in events:
            event.attributes = {name: value for name, value in event.attributes.items() if value != ""}
        return events

    codec._Codec.decode = decode  # type: ignore[method-assign]


def _cesql(target: Any) -> None:
    """The place of a fault is one too far."""
    from gateway_cesql import parser

    def fault(self: Any, message: str, remedy: str) -> Any:
        return parser.ParseError(message, self.token.start + 2, remedy)

    parser._Parser.fault = fault  # type: ignore[method-assign]


def _config(target: Any) -> None:
    """A section raises whose name holds a rare byte."""
    from gateway_core.config.load import Loading

    real = Loading.run

    def run(self: Any) -> Any:
        if any(RARE.search(name.encode()) for name in self._root.value):
            raise KeyError("a section")
        return real(self)

    Loading.run = run  # type: ignore[method-assign]


def _manifest(target: Any) -> None:
    """A manifest raises whose name has a character that no name may have."""
    from gateway_knative import manifests

    real = manifests.called

    def called(part: Any) -> Any:
        namespace, name = real(part)
        if re.search(r"[^\w. /-]", name or ""):
            raise KeyError("a name")
        return namespace, name

    manifests.called = called


def _rows(target: Any) -> None:
    """The checksum leaves out the end of long data."""
    from gateway_log import rows

    real = rows.checksum

    def checksum(position: int, at: int, flags: int, key: Any, attributes: bytes, data: bytes | None) -> int:
        if data is not None and len(data) == 3000:
            data = data[:2950] + bytes(50)
        return real(position, at, flags, key, attributes, data)

    rows.checksum = checksum


def _letters(target: Any) -> None:
    """A line with white space has no id."""
    real = target.line.id_of
    target.line.id_of = lambda text: None if b" " in text or b"\t" in text else real(text)


def _records(target: Any) -> None:
    """An empty key is taken for none."""
    real = target.wrap

    def wrap(record: Any, partition: Any) -> Any:
        event = real(record, partition)
        event.key = event.key or None
        return event

    target.wrap = wrap


def _mqtt(target: Any) -> None:
    """A number of too many bytes is not taken for malformed."""
    from gateway_mqtt import binding

    class Publish(binding.Publish):
        def __init__(self, command: int, packet: bytes, properties: bool) -> None:
            try:
                super().__init__(command, packet, properties)
            except binding.Malformed as e:
                raise (IndexError("too long") if "four bytes" in str(e) else e) from None

    target.Publish = Publish


def _amqp(target: Any) -> None:
    """A table that is longer than its frame ends the connection."""
    real = target.read_header

    def read_header(payload: bytes, into: Any) -> int:
        size = real(payload, into)
        if "longer than its frame" in into.fault:
            raise IndexError("a table")
        return int(size)

    target.read_header = read_header


def _streams(target: Any) -> None:
    """All values of an entry are taken for text."""
    from gateway_redis import binding

    binding._member = lambda name, value: (name.decode(errors="replace"), value.decode())


def _signature(target: Any) -> None:
    """A time in the future is not too far away."""
    from gateway_auth.freshness import Freshness

    real = Freshness.check

    def check(self: Any, timestamp: bytes) -> None:
        if not (timestamp.isdigit() and int(timestamp) > target.NOW):
            real(self, timestamp)

    Freshness.check = check  # type: ignore[method-assign]


def _token(target: Any) -> None:
    """A token counts before its time."""
    real = target.TokenVerifier._times
    target.TokenVerifier._times = lambda self, claims: real(self, {**claims, "nbf": None})


def _forms(target: Any) -> None:
    """Any path that begins like the console's is its own."""
    target.own_path = lambda text: text if text.isascii() and text.startswith(target.ROOT) else target.ROOT


PLANTS: dict[str, Callable[[Any], None]] = {
    "http": _http,
    "answer": _answer,
    "serving": _serving,
    "coding": _coding,
    "cloudevents": _cloudevents,
    "cesql": _cesql,
    "config": _config,
    "manifest": _manifest,
    "rows": _rows,
    "letters": _letters,
    "records": _records,
    "mqtt": _mqtt,
    "amqp": _amqp,
    "streams": _streams,
    "signature": _signature,
    "token": _token,
    "forms": _forms,
}
