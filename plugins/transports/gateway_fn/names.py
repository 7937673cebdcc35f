"""The names of the Fn protocol, and where an event of either spelling has their values.

Source: Fn Project, "Common Events Specification and CloudEvent protocol extensions". Its events follow an early
CloudEvents 0.1: `eventType`, `eventID`, … and a map of `extensions`. An event of 1.0 has no maps and only lower-case
names, so its extensions are `iofnprojectdeadline`, and JSON text in `iofnprojecthttpreq` and `iofnprojecthttpresp`.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

from gateway_core.contract.event import Event
from gateway_core.contract.moments import stamped

VERSION = "cloudEventsVersion"
EXTENSIONS = "extensions"

HTTP_REQUEST = "io.fnproject.httpRequest"
HTTP_RESPONSE = "io.fnproject.httpResponse"
ERROR = "io.fnproject.fnError"

DEADLINE = "ioFnProjectDeadline"
REQUEST = "ioFnProjectHttpReq"
RESPONSE = "ioFnProjectHttpResp"
MAPS = (REQUEST, RESPONSE)

_json = msgspec.json.Decoder().decode


def under_fn_names(event: Event) -> bool:
    """Whether the event has Fn's 0.1 names."""
    return VERSION in event.attributes


def extension(event: Event, name: str) -> Any:
    """The value of an Fn extension by its 0.1 name, or None. Raises `ValueError` if the text of a map is not JSON."""
    if under_fn_names(event):
        return event.attributes.get(EXTENSIONS, {}).get(name)
    value = event.attributes.get(name, event.attributes.get(name.lower()))
    if name in MAPS and isinstance(value, str):
        try:
            return _json(value)
        except (msgspec.DecodeError, RecursionError) as e:
            raise ValueError(f"{name.lower()} is not JSON: {e}") from e
    return value


def with_extension(event: Event, name: str, value: Any) -> Event:
    """The event with this Fn extension, in the event's own spelling."""
    if under_fn_names(event):
        return event.with_attributes(**{EXTENSIONS: {**event.attributes.get(EXTENSIONS, {}), name: value}})
    return event.with_attributes(**{name.lower(): value if isinstance(value, str) else compact(value)})


def compact(value: Any) -> str:
    """A value as JSON text without spaces."""
    return msgspec.json.encode(value).decode()


def type_of(event: Event) -> Any:
    """The event's type."""
    return event.attributes.get("eventType" if under_fn_names(event) else "type")


def content_type_of(event: Event) -> str | None:
    """The media type of the data in any version; JSON if untyped data is JSON."""
    for name in ("contentType", "datacontenttype", "contenttype"):
        if isinstance(found := event.attributes.get(name), str):
            return found
    return "application/json" if event.json_data else None


def is_error(event: Event) -> bool:
    """Whether this event reports that a function failed."""
    return bool(type_of(event) == ERROR)


def message_of(event: Event) -> str:
    """The message of an `io.fnproject.fnError`."""
    try:
        data = _json(event.data or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = None
    message = data.get("message") if isinstance(data, dict) else data
    return message if isinstance(message, str) and message.strip() else "the function failed without a message"


def as_returned(event: Event, function: str, now_ns: int) -> Event:
    """The event to publish for what a function returned: its source is the function's URI, with a new id and the time
    of the return (Fn, "A note on response events")."""
    fn = under_fn_names(event)
    platform = {
        "source": function,
        "eventID" if fn else "id": str(uuid4()),
        "eventTime" if fn else "time": rfc3339(now_ns),
    }
    return Event({**event.attributes, **platform}, event.data, event.json_data, event.key, now_ns)


def rfc3339(ns: int) -> str:
    """Unix nanoseconds as RFC 3339 in UTC, to the millisecond, as Fn writes it."""
    return f"{stamped(ns)[:23]}Z"
