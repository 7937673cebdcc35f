"""Compares an event or an attempt with a scenario's expectations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway_core.contract.event import Event, Message, text_of

from .model import EventConfig, SentConfig
from .record import Attempt, id_of

MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Difference:
    path: str
    expected: str
    found: str


def shown(names: Iterable[str], in_order: bool = False) -> str:
    """A list of ids in a message."""
    known = list(names) if in_order else sorted(names)
    more = f" and {len(known) - MOST_SHOWN} more" if len(known) > MOST_SHOWN else ""
    return ", ".join(known[:MOST_SHOWN]) + more or "none"


def differences(expected: EventConfig, event: Event) -> list[Difference]:
    """The differences of an event from the expected one."""
    return list(_of_event(expected, event))


def sent_differences(expected: SentConfig, attempt: Attempt) -> list[Difference]:
    """The differences between what an attempt sent and what was expected."""
    return [*_of_event(expected, attempt.event), *_of_message(expected, attempt)]


def _of_event(expected: EventConfig, event: Event) -> Iterator[Difference]:
    if expected.id is not None and expected.id != id_of(event):
        yield Difference("id", expected.id, id_of(event))
    for name, wanted in expected.attributes.items():
        value = event.attributes.get(name)
        yield from _text(f"attributes.{name}", wanted, None if value is None else text_of(value))
    if "data" in expected.model_fields_set:
        yield from _bytes("data", expected.data, event.data)


def _of_message(expected: SentConfig, attempt: Attempt) -> Iterator[Difference]:
    filtered = expected.model_fields_set & {"method", "url", "topic", "key", "headers", "body"}
    if not filtered:
        return
    message = attempt.message
    if message is None:
        why = attempt.outcome.reason if attempt.outcome is not None else ""
        yield Difference(min(filtered), "a message", why or "the sink can't show what it sends")
        return
    topic = message.url.rpartition("/")[2] if message.url.startswith("kafka://") else None
    for name, found in (("method", message.method), ("url", message.url), ("topic", topic)):
        if name in filtered:
            yield from _text(name, getattr(expected, name), found)
    if "key" in filtered:
        yield from _text("key", expected.key, None if message.key is None else _decoded(message.key))
    headers = _headers(message)
    for name, wanted in expected.headers.items():
        yield from _text(f"headers.{name}", wanted, headers.get(name, headers.get(name.lower())))
    if "body" in filtered:
        yield from _bytes("body", expected.body, message.body)


def _headers(message: Message) -> Mapping[str, str]:
    return {_decoded(name): _decoded(value) for name, value in message.headers}


def _text(path: str, wanted: Any, found: str | None) -> Iterator[Difference]:
    expected = None if wanted is None else text_of(wanted)
    if expected != found:
        yield Difference(path, _or_absent(expected), _or_absent(found))


def _or_absent(text: str | None) -> str:
    return "absent" if text is None else repr(text)[:200]


def _bytes(path: str, wanted: Any, found: bytes | None) -> Iterator[Difference]:
    if wanted is None:
        if found is not None:
            yield Difference(path, "absent", _decoded(found)[:200])
    elif isinstance(wanted, str):
        if found is None or wanted.encode() != found:
            yield Difference(path, repr(wanted)[:200], "absent" if found is None else repr(_decoded(found))[:200])
    elif found is None or not same_json(wanted, found):
        written = msgspec.json.encode(wanted).decode()
        yield Difference(path, written[:200], "absent" if found is None else _decoded(found)[:200])


def same_json(wanted: Any, found: bytes) -> bool:
    """Whether the bytes are JSON of this value; true and 1 differ."""
    try:
        value = msgspec.json.decode(found)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return _same(wanted, value)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(v, other[k]) for k, v in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _decoded(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
