"""Messages that are not CloudEvents: what a source does with one, and the event that is made from it.

| attribute | from the message |
| --- | --- |
| `specversion`, `type` | `1.0`, and the type that the config says |
| `source`, `id` | where the message was read, and its number there, as the transport says |
| `time` | its timestamp, to the millisecond, in UTC; absent if it has none |
| `subject` | its key, if that is printable text in UTF-8 |
| `datacontenttype` | its header `content-type`, in any case, if that is a media type and no unknown event format |
| `<prefix>header<name>` | every other header; `<name>` is its name in lower case without all but a-z and 0-9 |
| `<prefix>binary<name>` | a header whose value is not text (not UTF-8, or with control characters), in Base64 |

The data is the body and the event's key is the key, byte for byte; a missing one stays missing. If several headers map
to one name, the last one counts. Headers whose value is missing, or whose name has no character of a-z and 0-9, are
dropped.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from gateway_core.contract.component import Config
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.outcome import Outcome, Stage
from gateway_core.contract.shortage import may_pass

from .event_formats import is_unknown_format
from .handover import Handover

T = TypeVar("T")


class NotAnEventConfig(Config):
    """What happens to a message that is not an event: a base for the options of sources that fetch."""

    not_an_event: Literal["dead_letter", "wrap", "drop"] = "dead_letter"
    """What happens to a message that is not a CloudEvent: it goes to the dead letter as it is, is wrapped in an event,
    or is dropped and counted."""
    wrap_type: Annotated[str, Field(min_length=1)] = "dev.tidegate.message"
    """The `type` of an event that wraps a message."""


def what_to_do(not_an_event: str, error: Refused) -> str:
    """What happens to a message that could not be read: what `not_an_event` says. But where this machine was short of
    memory, nobody knows what the message is, and it goes to the dead letter."""
    return "dead_letter" if may_pass(error) else not_an_event


def handle(options: NotAnEventConfig, handover: Handover[T], event: Event, token: T, error: Refused) -> None:
    """Does with a message that is not an event as `what_to_do` says. `event` is made from it (`wrapped`), and `error`
    says why it is none."""
    what = what_to_do(options.not_an_event, error)
    if what == "drop":
        handover.intake.refuse(error)
        handover.skip(token)
        return
    event.trace = error.trace
    if what == "wrap":
        handover.take(event, token)
    else:
        handover.dead_letter(event, token, Outcome(False, stage=Stage.DECODE, reason=error.detail))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_IN_NAMES = re.compile("[^a-z0-9]")
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN} *(?:; *{_TOKEN}=(?:{_TOKEN}|{_QUOTED}) *)*")
# characters that no attribute may have (CloudEvents 1.0.2 spec.md, "Type System", String), but for the last two of
# each plane
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef]")


def wrapped(
    *,
    id: str,
    source: str,
    type: str,
    data: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    prefix: str = "",
    key: bytes | None = None,
    timestamp_ms: int = -1,
    received_ns: int = 0,
) -> Event:
    """A message as a CloudEvents 1.0 event, see above. Works for any message. `prefix` is the transport's word in the
    names of attributes, `timestamp_ms` Unix time in milliseconds, -1 for none."""
    attributes = {"specversion": "1.0", "id": id, "source": source, "type": type}
    if time := _time(timestamp_ms):
        attributes["time"] = time
    if key and (subject := _text(key)).isprintable() and subject:
        attributes["subject"] = subject
    for name, value in headers:
        if value is not None:
            attributes.update(_attribute(prefix, name, value))
    return Event(attributes, data, False, key, received_ns)


def _attribute(prefix: str, name: str, value: bytes) -> dict[str, str]:
    lower, text = name.lower(), _text(value)
    if lower == "content-type" and _MEDIA_TYPE.fullmatch(text) and not is_unknown_format(text):
        return {"datacontenttype": text}
    short = _NOT_IN_NAMES.sub("", lower)
    if not short:
        return {}
    if value and not text:
        return {f"{prefix}binary{short}": b64encode(value).decode()}
    return {f"{prefix}header{short}": text}


def _text(value: bytes) -> str:
    """The value as text; "" if it is no text that an attribute may have."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ""
    if text.isprintable():
        return text
    return "" if _CONTROLS.search(text) or any(ord(c) & 0xFFFE == 0xFFFE for c in text) else text


def _time(milliseconds: int) -> str:
    """RFC 3339 in UTC; "" for -1, and for years that RFC 3339 can't have."""
    if milliseconds < 0:
        return ""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"
