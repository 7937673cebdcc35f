"""Reads the JSON event format (json-format.md 1.0.2): the object of structured mode, the array of batch mode.

`data` is never parsed: its JSON text is kept byte for byte. So members are first read as raw JSON.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import msgspec
from gateway_json import json_text
from gateway_transport.event_formats import essence, is_unknown_format
from msgspec import Raw

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event

from .layouts import JsonText, Layouts
from .memory import Memory
from .values import encoding, forbidden_character, is_json, is_text, with_utf8
from .versions import Version, version_of

MAX_BATCH = 10_000  # events in one message
DOCUMENT = "CloudEvents 1.0.2 json-format.md"

_MAX_INTEGER = 2**31
_WHITESPACE = b" \t\r\n"

_object = msgspec.json.Decoder(dict[str, Raw]).decode
_array = msgspec.json.Decoder(list[Raw]).decode
_strings = msgspec.json.Decoder(list[str]).decode
_values = msgspec.json.Decoder(list[Any]).decode
_string = msgspec.json.Decoder(str).decode
_base64 = msgspec.json.Decoder(bytes).decode

declares_json: Memory[str, bool] = Memory(is_json)
declares_text: Memory[str, bool] = Memory(is_text)
declared_encoding: Memory[str, str] = Memory(encoding)


def _is_json_read(content_type: str) -> bool:
    """`is_json` for an event that is read. Raises `Refused` if its data is in an event format that is not known."""
    if is_unknown_format(content_type):
        detail = f"event format {essence(content_type)[:100]!r} is unknown, so that no event may have data of it"
        raise Refused(detail, status=415, attribute="datacontenttype", rule=f"{DOCUMENT}, 3.1")
    return declares_json[content_type]


_reads_json: Memory[str, bool] = Memory(_is_json_read)


class JsonFormat:
    """Reads events in JSON format. Remembers the layout of the last event.

    `unknown_formats`: an event may have data in an event format that is not known here. A transport whose senders get
    no answer forwards these unchanged in binary mode (Kafka binding 3.1), so it has to take them in both modes.
    """

    def __init__(self, *, unknown_formats: bool = False) -> None:
        self._layouts = Layouts()
        self._reads_json = declares_json if unknown_formats else _reads_json

    def decode(self, body: bytes, key: bytes | None = None) -> Event:
        """The event of a JSON object. Raises `Refused`."""
        _check_utf8(body)
        return self._event(body, key)

    def decode_batch(self, body: bytes) -> list[Event]:
        """The events of a JSON array. Raises `Refused` with the index (from 0) of the first invalid one."""
        _check_utf8(body)
        if body.isascii() and (quick := self._layouts.read_array(body, MAX_BATCH)):
            found, version = quick
            return [self._quickly(attributes, version, data, None) for attributes, data in found]
        try:
            items: list[JsonText] = list(_array(body))
        except (msgspec.DecodeError, RecursionError) as e:
            items = _elements(body, e)
        if len(items) > MAX_BATCH:
            detail = f"the batch has {len(items)} events; the maximum is {MAX_BATCH}"
            raise Refused(detail, status=413, rule=f"{DOCUMENT}, 4. JSON Batch Format")
        events: list[Event] = []
        try:
            for item in items:
                events.append(self._event(item, None))  # noqa: PERF401 - the count is needed where one is refused
        except Refused as e:
            detail = f"event {len(events)} of the batch: {e.detail}"
            raise Refused(detail, status=e.status, title=e.title, rule=e.rule, attribute=e.attribute) from e
        return events

    def _event(self, text: JsonText, key: bytes | None) -> Event:
        if quick := self._layouts.read(text, len(text)):
            attributes, version, data = quick
            return self._quickly(attributes, version, data, key)
        return self._general(text, key)

    def _general(self, text: JsonText, key: bytes | None) -> Event:
        try:
            members = _object(text)
        except (msgspec.DecodeError, RecursionError) as e:
            text = bytes(text).removeprefix(json_text.BOM)
            members = _members(text, e)
        order = tuple(members)
        data = members.pop("data", None)
        binary = members.pop("data_base64", None)
        joined = b",".join(members.values())
        values, all_text = _read(joined, members)
        attributes = dict(zip(members, values, strict=True))
        version = version_of(attributes)
        checked, unfit = _checked(attributes, version)
        version.settle(checked, unfit)
        # {"name":value,…} is 4 bytes per member plus 1, besides names and values; `joined` has some of the commas
        parts: list[JsonText] = [joined, *(raw for raw in (data, binary) if raw is not None)]
        least = sum(map(len, order)) + sum(map(len, parts)) + 4 * len(order) + 1 - max(len(members) - 1, 0)
        if least != len(text):
            _check_duplicates(bytes(text), least, parts)
        if all_text and binary is None:
            self._layouts.learn(order, version)
        return _with_data(checked, version, data, binary, key, self._reads_json)

    def _quickly(self, attributes: dict[str, Any], version: Version, data: Raw | None, key: bytes | None) -> Event:
        if data is None:
            return Event(attributes, None, False, key)
        if self._reads_json[attributes.get(version.content_type, "application/json")] and not version.encoding:
            return Event(attributes, bytes(data), version.content_type not in attributes, key)
        return _with_data(attributes, version, data, None, key, self._reads_json)


def said(error: BaseException) -> str:
    """The text of a parser's error."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def fault(detail: str, section: str, attribute: str = "") -> Refused:
    """A `Refused` that cites the JSON format."""
    return Refused(detail, rule=f"{DOCUMENT}, {section}", attribute=attribute)


def _members(text: bytes, error: Exception) -> dict[str, Raw]:
    """The members of an object that the fast parser refused, because of this error."""
    try:
        return {name: Raw(value) for name, value in json_text.members(text).items()}
    except ValueError:
        raise fault(f"not a JSON object with an event: {said(error)}", "3. Envelope") from error


def _elements(text: bytes, error: Exception) -> list[JsonText]:
    try:
        return list(json_text.elements(text))
    except ValueError:
        raise fault(f"the body is not a JSON array of events: {said(error)}", "4. JSON Batch Format") from error


def _read(joined: bytes, members: Mapping[str, Raw]) -> tuple[list[Any], bool]:
    """The attribute values, and whether all are text. `joined` has those of the members, with commas between them."""
    array = b"[%b]" % joined
    try:
        return _strings(array), True
    except msgspec.ValidationError:
        try:
            return _values(array), False
        except (msgspec.MsgspecError, RecursionError):
            pass
    except (msgspec.DecodeError, RecursionError):
        pass
    return [json_text.scalar(raw) for raw in members.values()], False


def _with_data(
    attributes: dict[str, Any],
    version: Version,
    data: Raw | None,
    binary: Raw | None,
    key: bytes | None,
    reads_json: Memory[str, bool],
) -> Event:
    content_type = attributes.get(version.content_type)
    read_as_json = content_type is not None and reads_json[content_type]
    if binary is not None and bytes(binary) != b"null":
        if not version.base64_member:
            raise version.fault("data_base64", f"version {version.name} has no data_base64", "Context Attributes")
        if data is not None:
            raise fault("data and data_base64 are both there", "3.1.1. Payload Serialization", "data_base64")
        return Event(attributes, _decoded(binary, "data_base64"), False, key)
    if data is None:
        return Event(attributes, None, False, key)
    if version.encoding and attributes.get(version.encoding, "").lower() == "base64":
        # it describes the encoding in JSON, not the data (0.3 spec.md), so it is dropped with the JSON
        attributes = {name: value for name, value in attributes.items() if name != version.encoding}
        return Event(attributes, _decoded(data, "data"), False, key)
    if content_type is None:
        return Event(attributes, bytes(data), True, key)
    if read_as_json:
        return Event(attributes, bytes(data), False, key)
    if version.base64_by_type:
        return _by_type(attributes, version, data, content_type, key)
    return _of_text(attributes, version, _text(data, content_type), content_type, key)


def _by_type(attributes: dict[str, Any], version: Version, data: Raw, content_type: str, key: bytes | None) -> Event:
    """0.2 json-format.md section 3.1: a string is text if the media type is a text type, else Base64. A string that is
    not Base64 is text; anything but a string is JSON."""
    if bytes(data)[:1] != b'"':
        return Event(attributes, bytes(data), True, key)
    text = string_of(data)
    if not declares_text[content_type]:
        try:
            return Event(attributes, b64decode(text, validate=True), False, key)
        except ValueError:
            pass
    return _of_text(attributes, version, text, content_type, key)


def _text(data: Raw, content_type: str) -> str | None:
    if bytes(data)[:1] == b'"':
        return string_of(data)
    if bytes(data) == b"null":
        return None
    detail = f"data is not a string, although its content type {content_type!r} is not JSON"
    raise fault(detail, "3.1.2. Payload Deserialization", "data")


def string_of(data: Raw) -> str:
    """The text of a string. Half of a surrogate pair, which no encoding has, becomes U+FFFD, as in browsers."""
    try:
        return _string(data)
    except (msgspec.DecodeError, RecursionError):
        return json_text.string(data).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _of_text(
    attributes: dict[str, Any], version: Version, text: str | None, content_type: str, key: bytes | None
) -> Event:
    """An event whose data is text: in the charset that its content type declares. If the text has characters that this
    has not, it is UTF-8, and the content type says so."""
    if text is None:
        return Event(attributes, None, False, key)
    if charset := declared_encoding[content_type]:
        try:
            return Event(attributes, text.encode(charset), False, key)
        except UnicodeEncodeError:
            attributes = {**attributes, version.content_type: with_utf8(content_type)}
    return Event(attributes, text.encode(), False, key)


def _decoded(text: Raw, member: str) -> bytes:
    try:
        return _base64(text)
    except (msgspec.DecodeError, RecursionError) as e:
        raise fault(f"{member} is not a string of Base64", "3.1.2. Payload Deserialization", member) from e


def _checked(attributes: dict[str, Any], version: Version) -> tuple[dict[str, Any], dict[str, Refused]]:
    """The attributes without null values (section 2.2), and without optional ones whose value no attribute may have;
    the latter with their faults."""
    checked: dict[str, Any] = {}
    unfit: dict[str, Refused] = {}
    for name, value in attributes.items():
        if value is None:
            continue
        if (type(value) is str and value.isprintable()) or not (why := _unfit(name, value, version)):
            checked[name] = value
            continue
        unfit[name] = fault(why, "2.2. Type System Mapping", name)
        if not version.spares(name):
            raise unfit[name]
    if version.extensions and type(checked.get(version.extensions)) is str:
        raise version.fault(version.extensions, f"{version.extensions} is not a JSON object", version.extensions)
    return checked, unfit


def _unfit(name: str, value: Any, version: Version) -> str:
    """Why an attribute can't have this value, "" if it can."""
    if type(value) is str:
        character = forbidden_character(value)
        return f"the value of {name} contains {character}, which is not allowed in an attribute" if character else ""
    if name == version.extensions and type(value) is dict and value:
        return ""
    if version.is_defined(name):
        kind = "JSON object with at least one member" if name == version.extensions else "string"
        return f"the value of {name} is not a {kind}"
    if type(value) is int:
        in_range = -_MAX_INTEGER <= value < _MAX_INTEGER
        return "" if in_range else f"the value of {name} is not in the range of 32 bits"
    if type(value) is bool or (version.maps and type(value) is dict):
        return ""
    return f"the value of {name} is neither a string, a whole number nor a boolean"


def _check_utf8(body: bytes) -> None:
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as e:
            raise fault(f"the body is not UTF-8 (byte {e.start})", "1. Introduction") from e


def _check_duplicates(text: bytes, least: int, parts: list[JsonText]) -> None:
    """Raises `Refused` for duplicate members. It first subtracts whitespace; only an object that is still longer than
    necessary (escapes in names, or duplicates) is read again by a parser that detects duplicates."""
    inside = b"".join(parts)
    least -= len(inside) - len(inside.translate(None, _WHITESPACE))
    if least == len(text.translate(None, _WHITESPACE)):
        return
    seen: set[str] = set()
    for name in _top_level_names(text):
        if name in seen:
            raise fault(f"member {name[:100]!r} appears more than once", "3. Envelope", name[:100])
        seen.add(name)


def _top_level_names(text: bytes) -> list[str]:
    # the hook runs for inner objects first, so its last result is the outermost
    found: list[str] = []
    try:
        return _names_of(text, found)
    except RecursionError:
        try:
            return json_text.names(text)
        except ValueError as e:
            raise fault(f"not a JSON object with an event: {e}", "3. Envelope") from e


def _names_of(text: bytes, found: list[str]) -> list[str]:
    def pairs(items: list[tuple[str, Any]]) -> None:
        found[:] = [name for name, _ in items]

    json.loads(text, object_pairs_hook=pairs, parse_int=_ignored, parse_float=_ignored)
    return found


def _ignored(text: str) -> None:
    return None
