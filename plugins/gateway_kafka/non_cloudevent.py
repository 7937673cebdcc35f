"""Wraps records that are not CloudEvents in events: for `not_an_event: wrap`, and for the dead letter.

| attribute | from the record |
| --- | --- |
| `specversion`, `type` | `1.0`, and the type that the config says |
| `source` | `kafka:/<topic>`. It has no address of the cluster, since addresses change and differ between clients |
| `id` | `<partition>:<offset>`: the same record always gives the same event |
| `time` | its timestamp, to the millisecond, in UTC; absent if the record has none |
| `subject` | its key, if that is printable text in UTF-8 |
| `datacontenttype` | its header `content-type`, in any case, if that is a media type |
| `kafkaheader<name>` | every other header, `<name>` being its name in lower case without all that is not a-z or 0-9 |
| `kafkabinary<name>` | a header whose value is not text (not UTF-8, or with control characters), in Base64 |

The data is the value and the event's key is the key, byte for byte; a null stays null. If several headers map to one
name, the last one counts, as in Kafka's own `lastHeader`. Headers whose value is null, or whose name has no character
of a-z and 0-9, are dropped.
"""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import UTC, datetime, timedelta

from gateway_core.contract.event import Event

from .client import Partition, Record

DEFAULT_TYPE = "dev.tidegate.kafka.record"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_IN_NAMES = re.compile("[^a-z0-9]")
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f-\U0010ffff]|\\[ -~])*"'
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN} *(?:; *{_TOKEN}=(?:{_TOKEN}|{_QUOTED}) *)*")
# characters that no attribute may have (CloudEvents 1.0.2 spec.md, "Type System", String), but for the last two of
# each plane
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef]")


def wrap(record: Record, partition: Partition, type: str = DEFAULT_TYPE, received_ns: int = 0) -> Event:
    """The record as a CloudEvents 1.0 event, see above. Works for any record."""
    topic, number = partition
    attributes = {"specversion": "1.0", "id": f"{number}:{record.offset}", "source": f"kafka:/{topic}", "type": type}
    if time := _time(record.timestamp_ms):
        attributes["time"] = time
    if record.key and (subject := _text(record.key)).isprintable() and subject:
        attributes["subject"] = subject
    for name, value in record.headers:
        if value is not None:
            attributes.update(_attribute(name, value))
    return Event(attributes, record.value, False, record.key, received_ns)


def _attribute(name: str, value: bytes) -> dict[str, str]:
    lower, text = name.lower(), _text(value)
    if lower == "content-type" and _MEDIA_TYPE.fullmatch(text):
        return {"datacontenttype": text}
    short = _NOT_IN_NAMES.sub("", lower)
    if not short:
        return {}
    if value and not text:
        return {f"kafkabinary{short}": b64encode(value).decode()}
    return {f"kafkaheader{short}": text}


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
    """RFC 3339 in UTC; "" for Kafka's -1, and for years that RFC 3339 can't have."""
    if milliseconds < 0:
        return ""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"
