"""What a response to a batch says of single events.

No standard says how to write it. The 207 of RFC 4918 (section 13) has a body in XML, the JSON batch format and the
HTTP binding of CloudEvents leave responses open, and vendors' forms differ. The one read here is published in the
RESTful API guidelines of Zalando, rule 152: an object whose `items` have the `id` of an event, its `status` and, for
people, a `description`. CloudEvents names an event by `id` and `source`, so an item may have the `source`, too.

A 207 says that events may have failed. So no event is delivered that it does not say so of: an event that it says
nothing of, or all if its body can't be read, are tried again. Any other 2xx says that all are delivered but those
whose items say otherwise; its body is read if it is JSON in this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from gateway_options.secrecy import without
from gateway_serving.content_coding import decoded
from msgspec import Raw

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, id_of
from gateway_core.contract.interfaces import Outcome

from .outcome import KEEP_BYTES, Classifier, Headers

T = TypeVar("T")

MOST_BYTES = 1024 * 1024
"""The longest body that is read."""
MULTI_STATUS = 207


class _Items(msgspec.Struct):
    items: list[Raw]


class _Item(msgspec.Struct):
    id: str
    status: int | str
    source: str | None = None


_ITEMS = msgspec.json.Decoder(_Items)
_ITEM = msgspec.json.Decoder(_Item)


class _Stated:
    """The status of an event, and the JSON text that says it."""

    __slots__ = ("id", "source", "status", "text")

    def __init__(self, text: Raw) -> None:
        item = _decoded(text, _ITEM)
        status = item.status
        if isinstance(status, str):  # the guidelines say that it is a string, and a number
            status = int(status) if len(status) == 3 and status.isascii() and status.isdigit() else 0
        if not 200 <= status <= 599:
            raise ValueError("an item has a `status` that is none of a response")
        self.id = item.id
        self.source = item.source
        self.status = status
        self.text = bytes(text)


class BatchResponses:
    """The `Classifier` of a sink with `batch`. What a 2xx says of single events is in `Outcome.data`, for `outcomes`.
    `single` classifies the status of one event, as for a sink that sends single events."""

    def __init__(self, single: Classifier, secrets: Sequence[bytes]) -> None:
        self._single = single
        self._secrets = secrets

    def body_limit(self, status: int) -> int:
        """See `Classifier`."""
        return MOST_BYTES if 200 <= status < 300 else self._single.body_limit(status)

    def classify(self, status: int, headers: Headers, body: bytes, truncated: bool = False) -> Outcome:
        """See `Classifier`."""
        outcome = self._single.classify(status, headers, body, truncated)
        if not outcome.delivered or (status != MULTI_STATUS and not (body and _is_json(headers))):
            return outcome
        try:
            if truncated:
                raise Refused(f"it is longer than {MOST_BYTES} bytes")
            body = decoded(headers, body, MOST_BYTES)[1]
        except Refused as e:
            return self._unreadable(body, e.detail) if status == MULTI_STATUS else outcome
        return Outcome(True, code=status, data=body)

    def classify_one(self, status: int, headers: Headers, body: bytes, truncated: bool = False) -> Outcome:
        """The outcome of a batch of one event. See `ClassifiesResponses`."""
        outcome = self.classify(status, headers, body, truncated)
        if not outcome.delivered or outcome.data is None:
            return outcome
        try:
            stated = _read(outcome.data)
        except ValueError as e:
            return self._rest(outcome, str(e))
        return self._said(stated[0]) if len(stated) == 1 else self._rest(outcome, None)

    def outcomes(self, outcome: Outcome, events: Sequence[Event]) -> list[Outcome]:
        """The outcome of each event of a batch, from that of `classify` for its response."""
        if not outcome.delivered or outcome.data is None:
            return [outcome] * len(events)
        try:
            found = _of_events(events, _read(outcome.data))
        except ValueError as e:
            return [self._rest(outcome, str(e))] * len(events)
        rest = self._rest(outcome, None)
        return [rest if stated is None else self._said(stated) for stated in found]

    def _said(self, stated: _Stated) -> Outcome:
        return self._single.classify(stated.status, [], stated.text)

    def _rest(self, outcome: Outcome, unreadable: str | None) -> Outcome:
        """The outcome of an event that the response says nothing of."""
        assert outcome.code is not None
        if outcome.code != MULTI_STATUS:
            return self._single.classify(outcome.code, [], b"")
        body = outcome.data or b""
        if unreadable is not None:
            return self._unreadable(body, unreadable)
        return self._failed(body, "207 Multi-Status does not say what became of this event")

    def _unreadable(self, body: bytes, why: str) -> Outcome:
        return self._failed(body, f"207 Multi-Status with a body that can't be read: {why}")

    def _failed(self, body: bytes, reason: str) -> Outcome:
        data = without(self._secrets, body[:KEEP_BYTES])
        return Outcome(False, retry=True, code=MULTI_STATUS, data=data, reason=reason)


def _is_json(headers: Headers) -> bool:
    for name, value in headers:
        if name == b"content-type":
            media_type = value.partition(b";")[0].strip(b" \t").lower()
            return media_type == b"application/json" or media_type.endswith(b"+json")
    return False


def _read(body: bytes) -> list[_Stated]:
    """The items of a body. Raises `ValueError` if it has none, or one that does not fit."""
    body.decode()  # msgspec does not look at the text that it skips
    return [_Stated(text) for text in _decoded(body, _ITEMS).items]


def _decoded(text: bytes | Raw, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.MsgspecError as e:
        raise ValueError(str(e)) from None


def _of_events(events: Sequence[Event], items: list[_Stated]) -> list[_Stated | None]:
    """What is stated of each event; None if that is nothing, or not clear. Events that items can't tell apart get them
    in order if there are as many, and one status for all if it is the same event."""
    said: dict[tuple[str | None, str | None], list[_Stated]] = {}
    for item in items:
        said.setdefault((item.id, item.source), []).append(item)
    alike: dict[tuple[str | None, str | None], list[int]] = {}
    for index, event in enumerate(events):
        key = id_of(event), event.attributes.get("source")
        alike.setdefault(key if key in said else (key[0], None), []).append(index)
    found: list[_Stated | None] = [None] * len(events)
    for key, indices in alike.items():
        stated = said.get(key, [])
        if len(stated) != len(indices):
            sources = {events[index].attributes.get("source") for index in indices}
            clear = len(sources) == 1 and len({item.status for item in stated}) == 1
            stated = stated[:1] * len(indices) if clear else []
        for index, item in zip(indices, stated, strict=False):
            found[index] = item
    return found
