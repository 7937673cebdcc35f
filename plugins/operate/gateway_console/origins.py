"""Where events came from that are on their way into a broker or bridge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from gateway_api.roles import Role
from gateway_options.secrecy import names_credential
from gateway_transport.witness import MessageOrigin

from gateway_core.contract.event import Event

from .config import HIDDEN, HideConfig
from .filters import short

MOST = 4096
MOST_BYTES = 8 * 1024 * 1024
_EACH = 100
"""About how many bytes a header takes besides its value."""
_MOST_VALUE = 2000
_PLAIN = frozenset(
    [
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "expect",
        "host",
        "traceparent",
        "transfer-encoding",
        "upgrade",
    ]
)
"""Headers that say nothing of the data, for whom that is hidden. Any other may repeat it, or a digest of it."""
_LEAST = 4
"""A shorter value says nothing because the data has it, too."""
_NAMES = {"content-type": "datacontenttype"}


class Origins:
    """Keeps them until the event is accepted; the oldest are dropped, such as those of events that were refused."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Event, MessageOrigin, int]] = {}
        self._bytes = 0

    def came(self, events: Sequence[Event], origin: MessageOrigin) -> None:
        """A `Witness`."""
        waiting = self._waiting
        share = sum([len(value) + _EACH for _, value in origin.headers]) // (len(events) or 1)
        for event in events:
            if id(event) in waiting:  # handed over again
                self.take(event)
            waiting[id(event)] = event, origin, share
            self._bytes += share + len(event.data or b"")
        while len(waiting) > MOST or self._bytes > MOST_BYTES:
            self.take(next(iter(waiting.values()))[0])

    def take(self, event: Event) -> tuple[MessageOrigin | None, int]:
        """Where an event came from, and about how many bytes that takes; forgets it."""
        found = self._waiting.pop(id(event), None)
        if found is None:
            return None, 0
        _, origin, share = found
        self._bytes -= share + len(event.data or b"")
        return origin, share

    def clear(self) -> None:
        """Forgets all."""
        self._waiting.clear()
        self._bytes = 0


def told(origin: MessageOrigin) -> dict[str, Any]:
    """An origin as JSON values, without credentials: `from`, and `headers` as pairs."""
    pairs = [(name.decode("utf-8", "backslashreplace"), value) for name, value in origin.headers]
    return {"from": origin.place, "headers": [(name, _text(name, value, origin)) for name, value in pairs]}


def _text(name: str, value: bytes, origin: MessageOrigin) -> str:
    if name.lower().encode() in origin.secret or names_credential(name):
        return HIDDEN
    return short(value.decode("utf-8", "backslashreplace"), _MOST_VALUE)


def without_sender(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What was recorded, without who sent it (for whom the attribute `authid` is hidden, which says the same)."""
    return {name: value for name, value in entry.items() if name != "sender"}


def shown(
    headers: Sequence[Sequence[str]], document: Mapping[str, Any] | None, hides: HideConfig, role: Role | None
) -> list[tuple[str, str]]:
    """The headers as this role may see them. A header may repeat an attribute under any name, so one that says the same
    as a hidden attribute is hidden too; all are, if it is not known what the attributes say. For whom the data is
    hidden, only attributes and headers of the transport are shown, unless they repeat something of it."""
    pairs = [(name, value) for name, value in headers]
    if not hides.hides_some(role):
        return pairs
    secret = {name for name in hides.attributes if hides.hides_attribute(name, role)}
    if secret and document is None:
        return [(name, HIDDEN) for name, _ in pairs]
    values = [str(document[name]) for name in secret if document and str(document.get(name, ""))]

    data = _data_of(document) if hides.hides_data(role) else None

    def repeats(name: str, bare: str, value: str) -> bool:
        if data is None:
            return False
        if bare != name.lower():  # an attribute, which is shown elsewhere
            return document is None or bare not in document
        return bare not in _PLAIN or (len(value) >= _LEAST and bare != "content-type" and value in data)

    def hidden(name: str, value: str) -> bool:
        bare = name.lower().removeprefix("ce-").removeprefix("ce_")
        if _NAMES.get(bare, bare) in secret or repeats(name, bare, value):
            return True
        plain = unquote(value)
        return bool(value) and any(each in text or text in each for each in values for text in (value, plain))

    return [(name, HIDDEN if hidden(name, value) else value) for name, value in pairs]


def _data_of(document: Mapping[str, Any] | None) -> str:
    """The data as text, "" if it is not known."""
    if document is None:
        return ""
    return "\n".join(json.dumps(document.get(name), ensure_ascii=False) for name in ("data", "data_base64"))
