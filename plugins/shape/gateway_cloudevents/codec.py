"""The codec: detects the content mode of a message, and reads and writes events. Binary mode is here: attributes as
headers, data as the body (HTTP binding section 3.1, Kafka binding section 3.2, MQTT binding section 3.1). The JSON
format of the other modes is in `jsonformat` and `jsonwrite`. Differences between transports are in their `Binding`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from gateway_transport.event_formats import essence

from gateway_core.contract.component import Binding, BuildContext
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, Message, text_of
from gateway_core.contract.interfaces import Codec

from . import jsonwrite
from .bindings import own_headers, rule
from .config import CloudEventsConfig
from .content_coding import CODING, decoded
from .jsonformat import JsonFormat
from .left_out import leave_out
from .memory import Memory
from .older import OlderHeaders
from .values import URIS, charset, forbidden_character, uri_of_header
from .versions import V1_0, Version, spared, version_to_write

CONTENT_TYPE = "content-type"  # a key among attribute names; the dash makes it unique
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
FORMATS = "application/cloudevents"

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BACKSLASH = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = bytes(c for c in range(0x21, 0x7F) if c not in b'"%')
_PLAIN_TEXT = _PLAIN.decode()
_NAME = re.compile("[A-Za-z0-9_]+")
_STRUCTURED_HEADER = (b"content-type", b"application/cloudevents+json; charset=utf-8")


def build(config: CloudEventsConfig, context: BuildContext) -> Codec:
    """The codec for the transport's binding. Raises `StartError` if the transport names none."""
    if context.binding is None:
        raise StartError(f"{context.owner}: its transport does not say how it carries events (`BuildContext.binding`)")
    if config.mode == "binary":
        return _shared(_Codec, context.binding)
    return _shared(_StructuredWithHeaders if config.attribute_headers else _Structured, context.binding)


@lru_cache(64)
def _shared(kind: type[_Codec], binding: Binding) -> _Codec:
    """One codec for all that need the same: thousands of sinks share what it has learnt of names and values."""
    return kind(binding)


class _Codec:
    """Reads every mode; writes binary mode, except for an event whose data is itself in a CloudEvents format: in binary
    mode it would be read as the event or batch in its data."""

    def __init__(self, binding: Binding) -> None:
        self._binary = BinaryMode(binding)
        self._json = JsonFormat(unknown_formats=not binding.answers)
        self._binding = binding
        self._modes: Memory[str, str] = Memory(self._mode)

    def decode(self, message: Message) -> list[Event]:
        attributes, content_type, unfit = self._binary.attributes(message)
        if CODING in attributes:
            message = decoded(message, attributes)
        mode = self._modes[content_type] if content_type is not None else "binary"
        if mode == "binary":
            return [self._binary.decode(attributes, content_type, unfit, message)]
        if message.body is None:
            raise Refused("a structured event needs a value", rule=rule(self._binding, "structured"))
        if mode == "structured":
            return [self._json.decode(message.body, message.key)]
        return self._json.decode_batch(message.body)

    def encode(self, event: Event) -> Message:
        try:
            return self._write(event)
        except UnicodeEncodeError as e:
            detail = f"a value of the event contains half of a surrogate pair (U+{ord(e.object[e.start]):04X})"
            raise Refused(detail, rule="CloudEvents 1.0.2, section 3.1") from e

    def text_headers(self, event: Event) -> list[tuple[str, bytes]] | None:
        """See `TextHeaders`."""
        return self._binary.text_headers(event)

    def _write(self, event: Event) -> Message:
        return self._binary.encode(event) or _structured(event)

    def _mode(self, content_type: str) -> str:
        if content_type[: len(FORMATS)].lower() != FORMATS:
            return "binary"
        kind = essence(content_type)
        mode = "structured" if kind == STRUCTURED else "batch" if kind == BATCH and self._binding.batches else ""
        if not mode:
            if not self._binding.answers:
                return "binary"  # forwarded unchanged, as the bindings allow
            formats = f"{STRUCTURED} or {BATCH}" if self._binding.batches else STRUCTURED
            raise self._unsupported(f"event format {kind[:100]!r} is unknown; send {formats}")
        if charset(content_type) not in ("", "utf-8", "utf8"):
            raise self._unsupported(f"charset {charset(content_type)[:100]!r} is not taken; JSON events are UTF-8")
        return mode

    def _unsupported(self, detail: str) -> Refused:
        return Refused(detail, status=415, rule=rule(self._binding, "mode"), attribute="datacontenttype")


class _Structured(_Codec):
    """Reads every mode; writes structured mode."""

    def text_headers(self, event: Event) -> list[tuple[str, bytes]] | None:
        return None

    def _write(self, event: Event) -> Message:
        return _structured(event)


class _StructuredWithHeaders(_Structured):
    """Reads every mode; writes structured mode, with the attributes also as headers."""

    def _write(self, event: Event) -> Message:
        return Message([_STRUCTURED_HEADER, *self._binary.attribute_headers(event)], jsonwrite.encode(event), event.key)


def _structured(event: Event) -> Message:
    return Message([_STRUCTURED_HEADER], jsonwrite.encode(event), event.key)


# -- binary mode -----------------------------------------------------------------------------------------------------


class BinaryMode:
    """Events to and from the headers and body of one binding's messages."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._prefix = binding.prefix
        self._folded = binding.prefix.lower()
        self._own = own_headers(binding)
        self._folds = binding.folds_case
        self._empty_is_none = binding.empty_is_none
        self._older = OlderHeaders(binding)
        self._percent = binding.percent
        self._easy = bytes(c for c in range(0x20, 0x7F) if not (binding.percent and c in b'"%'))
        self._names_in: Memory[bytes, str] = Memory(self._name_in)
        self._names_out: Memory[str, bytes] = Memory(self._name_out)
        self._text_names_out: Memory[str, str] = Memory(lambda attribute: self._name_out(attribute).decode())
        self._types_out: Memory[str, bytes] = Memory(self._type_out)
        self._values_out: Memory[str, bytes] = Memory(_percent_encoded if binding.percent else str.encode)

    def attributes(self, message: Message) -> tuple[dict[str, Any], str | None, dict[str, Refused]]:
        """The attributes in the headers, with a content coding as `CODING`, and the content type; and, with their
        faults, the names of optional attributes that are left out since none may have their value. Raises `Refused`."""
        found: dict[str, Any] = {}
        unfit: dict[str, Refused] = {}
        names = self._names_in
        try:
            for name, value in message.headers:
                if attribute := names[name]:
                    if attribute in found:
                        raise self._fault(attribute, f"header {name.decode()} appears more than once")
                    found[attribute] = value.decode()
        except UnicodeDecodeError as e:
            raise self._fault(attribute, f"the value of header {name.decode()} is not UTF-8") from e
        if not self._folds:
            for attribute in [a for a in found if a[0] == " "]:
                found.setdefault(attribute[1:], found[attribute])
                del found[attribute]
        content_type = found.pop(CONTENT_TYPE, None)
        if found and "".join(found.values()).encode().translate(None, self._easy):
            texts = [(name, self._text(name, text, unfit)) for name, text in found.items()]
            found = {name: text for name, text in texts if text is not None}
        return found, content_type, unfit

    def decode(
        self, attributes: dict[str, Any], content_type: str | None, unfit: dict[str, Refused], message: Message
    ) -> Event:
        """The event of a message in binary mode, with what its headers have (`attributes`)."""
        version = V1_0
        if attributes.get("specversion") != "1.0":
            attributes, version, unfit = self._older.read(attributes, unfit, message)
        if content_type is not None:
            # it takes precedence over a `ce-datacontenttype`, which is invalid (section 3.1.1) but sent by
            # sdk-javascript; it may have tabs for spaces (RFC 9110 section 5.6.3), which is not allowed in an attribute
            attributes[version.content_type] = content_type.replace("\t", " ")
        version.settle(attributes, unfit)
        data = message.body
        if self._empty_is_none and not data and content_type is None:
            data = None
        if version.encoding and attributes.get(version.encoding, "").lower() == "base64":
            data = _without_encoding(attributes, version.encoding, data)
        return Event(attributes, data, False, message.key)

    def encode(self, event: Event) -> Message | None:
        """The event as a message in binary mode; None if its content type would put the message in another mode, or an
        attribute has the name of a transport header."""
        if self._own and any(self._prefix + name.encode() in self._own for name in event.attributes):
            return None
        attributes = event.attributes
        version = V1_0 if attributes.get("specversion") == "1.0" else version_to_write(attributes)
        content_type = attributes.get(version.content_type)
        if content_type is None:
            headers = self._headers(attributes, version)
            if event.json_data:
                headers.append((b"content-type", b"application/json"))
        elif media_type := self._types_out[text_of(content_type)]:
            headers = self._headers(attributes, version)
            headers.append((b"content-type", media_type))
        else:
            return None
        return Message(headers, event.data, event.key)

    def text_headers(self, event: Event) -> list[tuple[str, bytes]] | None:
        """The headers of `encode` with their names as text. None if only `encode` knows them, or why there are none."""
        attributes = event.attributes
        if self._own or self._percent or attributes.get("specversion") != "1.0":
            return None
        names = self._text_names_out
        headers: list[tuple[str, bytes]] = []
        content_type = attributes.get("datacontenttype")
        media_type = b"application/json" if event.json_data else b""
        try:
            if content_type is not None and not (media_type := self._types_out[text_of(content_type)]):
                return None
            for name, value in attributes.items():
                if name != "datacontenttype":
                    text: str = value if isinstance(value, str) else text_of(value)
                    headers.append((names[name], text.encode()))
        except Exception:
            return None
        if media_type:
            headers.append(("content-type", media_type))
        return headers

    def attribute_headers(self, event: Event) -> list[tuple[bytes, bytes]]:
        """The headers of an event in binary mode, without its content type."""
        attributes = event.attributes
        if self._own:
            attributes = {n: v for n, v in attributes.items() if self._prefix + n.encode() not in self._own}
        return self._headers(attributes, version_to_write(attributes))

    def _headers(self, attributes: dict[str, Any], version: Version) -> list[tuple[bytes, bytes]]:
        if version.content_type in attributes:
            attributes = attributes.copy()
            del attributes[version.content_type]
        if version is not V1_0:
            return self._older.headers(attributes, version)
        names = self._names_out
        return [(names[name], value) for name, value in zip(attributes, self._bytes(attributes), strict=True)]

    # -- values ---------------------------------------------------------------------------------------------------

    def _text(self, name: str, text: str, unfit: dict[str, Refused]) -> str | None:
        """The text of a header's value; None, and its fault among `unfit`, if no attribute may have it, and the event
        is worth having without."""
        if self._percent:
            text = self._unescaped(name, text)
        if character := forbidden_character(text):
            fault = self._fault(name, f"the value of {name} contains {character}, which is not allowed in an attribute")
            if not spared(name):
                raise fault
            if name == CODING:  # names no attribute
                leave_out(fault)
            else:
                unfit[name] = fault
            return None
        return text

    def _unescaped(self, name: str, text: str) -> str:
        if quoted := _QUOTED.fullmatch(text):
            text = _BACKSLASH.sub(r"\1", quoted[1])
        if "%" not in text:
            return text
        try:
            if name in URIS:
                return uri_of_header(text)
            # a % outside of an escape is literal: sdk-go and sdk-java don't encode it
            return unquote_to_bytes(text).decode()
        except UnicodeDecodeError as e:
            raise self._fault(name, f"the value of {name}, percent-decoded, is not UTF-8") from e

    def _bytes(self, attributes: dict[str, Any]) -> list[bytes]:
        values: list[Any] = list(attributes.values())
        try:
            joined = '"'.join(values)
        except TypeError:
            values = list(map(text_of, values))
            joined = '"'.join(values)
        if not self._percent:
            return [value.encode() for value in values]
        raw = joined.encode()
        if len(raw.translate(None, _PLAIN)) == len(values) - 1:  # only the separators need encoding
            return raw.split(b'"')
        return [self._values_out[value] for value in values]

    def _type_out(self, text: str) -> bytes:
        """The content-type header; b"" for a CloudEvents format, which would put the message in that format. A format
        that is not known here stays where the binding wants it to be passed on (Kafka binding section 3)."""
        kind = essence(text)
        if kind in (STRUCTURED, BATCH) or (self._binding.answers and kind.startswith(FORMATS)):
            return b""
        if text.isascii() and text.isprintable():
            return text.encode()
        raise self._fault("datacontenttype", f"{text!r} can't be a content-type header")

    # -- names ----------------------------------------------------------------------------------------------------

    def _name_in(self, name: bytes) -> str:
        """The attribute of a header, or "". If header names are case-sensitive, they count as written; a name that
        differs only in case (sdk-go) gets a leading space, so that the exact name takes precedence."""
        lower = name.lower()
        start = len(self._prefix)
        exact = self._folds or name == self._prefix + lower[start:]
        if lower in self._own:
            return ""
        if lower == b"content-type":
            attribute = CONTENT_TYPE
            exact = self._folds or name == lower
        elif lower == b"content-encoding":
            return CODING
        elif lower.startswith(self._folded):
            try:
                attribute = lower[start:].decode()
            except UnicodeDecodeError as e:
                raise self._fault("", f"header name {name!r} is not UTF-8") from e
        else:
            return ""
        if not attribute:
            raise self._fault("", f"header {name.decode()} names no attribute")
        return attribute if exact else f" {attribute}"

    def _name_out(self, attribute: str) -> bytes:
        if not _NAME.fullmatch(attribute):
            raise self._fault(attribute, f"attribute name {attribute!r} can't be part of a header name")
        return self._prefix + attribute.encode()

    def _fault(self, attribute: str, detail: str) -> Refused:
        if attribute == CONTENT_TYPE:
            attribute = "datacontenttype"
        return Refused(detail, attribute=attribute.strip(), rule=rule(self._binding, "attributes"))


def _percent_encoded(text: str) -> bytes:
    return quote(text, safe=_PLAIN_TEXT).encode()


def _without_encoding(attributes: dict[str, Any], encoding: str, data: bytes | None) -> bytes | None:
    """Decodes data that a header declares as Base64, as sdk-javascript sends it. The attribute is meant for data in a
    string (0.3 spec.md, datacontentencoding) and is ignored if the body is not Base64."""
    del attributes[encoding]
    try:
        return None if data is None else b64decode(data, validate=True)
    except ValueError:
        return data
