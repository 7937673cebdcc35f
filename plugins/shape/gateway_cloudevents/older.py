"""Attribute headers of the versions before 1.0: where binary mode differs from the 1.0 bindings.

* Maps are flattened: `ce-attrib-key: value` (HTTP bindings 0.2 and 0.3, section 3.1.3.1). Header names are
  case-insensitive, so a map whose keys are not all lower case becomes JSON in one header instead, which 0.1 and 0.2
  read as a map again.
* Values in 0.1 and 0.2 are JSON (section 3.1.3.2): quoted strings, numbers, objects. The SDKs of that time wrote and
  expected strings without quotes, so both are read, and quotes are written only if a string would otherwise be taken
  for another value.
* 0.1 as it was released: `CE-EventType` for `eventType`, and `CE-X-Name` for each member of `extensions`. A table
  restores names that HTTP made lower case; unknown extensions stay lower case.

There was no Kafka binding for 0.1 and 0.2. There, names are the attribute names with their case after `ce_`, and
extensions of the released 0.1 come after `ce_x_`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message, text_of

from .bindings import own_headers
from .values import URIS, forbidden_character, uri_of_header
from .versions import V0_1_CAMEL, Version, version_of

_CAMEL = (
    *("cloudEventsVersion", "contentType", "eventID", "eventTime", "eventType", "eventTypeVersion", "extensions"),
    *("schemaURL", "source"),
    *("ioFnProjectDeadline", "ioFnProjectHttpReq", "ioFnProjectHttpResp"),  # of the Fn protocol
)
_RESTORED = {name.lower(): name for name in _CAMEL}
_MARK = V0_1_CAMEL.specversion

_HEADER_NAME = re.compile("[A-Za-z0-9_-]+")
_KEY = re.compile("[a-z0-9]+")
_JSON_STARTS = frozenset('"{[-0123456789tfn')
_MAX_INTEGER = 2**31
_SAFE = bytes(c for c in range(0x21, 0x7F) if c not in b'"%').decode()
_SAFE_IN_JSON = _SAFE + '"'

_any = msgspec.json.Decoder().decode
_string = msgspec.json.Decoder(str).decode
_json = msgspec.json.Encoder().encode


class OlderHeaders:
    """Attributes to and from the headers of one binding's messages, for events of versions before 1.0."""

    def __init__(self, binding: Binding) -> None:
        self._http = binding.folds_case  # like HTTP, which 0.1 and 0.2 are written like
        self._prefix = binding.prefix
        self._percent = binding.percent
        self._others = {*own_headers(binding), b"content-type"}  # no attributes, also where attributes have no prefix

    # -- reading --------------------------------------------------------------------------------------------------

    def read(
        self, attributes: dict[str, Any], unfit: dict[str, Refused], message: Message
    ) -> tuple[dict[str, Any], Version, dict[str, Refused]]:
        """Detects the version and returns the attributes with its names and types, and those that are left out, with
        their faults. `attributes` and `unfit` are those of the message as read by 1.0: lower-case names, text. Raises
        `Refused`."""
        version = _version(attributes)
        if version.json_headers:
            unfit = {}
            fields = self._json_fields(message, version, unfit)
        else:
            unfit = {self._place(name, version)[0]: fault for name, fault in unfit.items()}
            fields = iter(attributes.items())
        found: dict[str, Any] = {}
        for name, value in fields:
            attribute, key = self._place(name, version)
            if not key:
                self._put(found, attribute, value, version)
            else:
                self._put(found.setdefault(attribute, {}), key, value, version)
        return found, version, unfit

    def _json_fields(self, message: Message, version: Version, unfit: dict[str, Refused]) -> Iterator[tuple[str, Any]]:
        """Names as written, without the prefix, and JSON values; those that no attribute may have go to `unfit`."""
        start = len(self._prefix)
        start_of, others = self._prefix.lower(), self._others
        fields = [(n, v) for n, v in message.headers if (low := n.lower()).startswith(start_of) and low not in others]
        if not self._http:  # among names that differ only in case, the exact prefix and case count
            exact = {n: v for n, v in fields if n.startswith(self._prefix)}
            named = {n[start:].lower() for n in exact}
            fields = [(n, v) for n, v in fields if n in exact or n[start:].lower() not in named]
        for name, raw in fields:
            word, text = name[start:].decode(), raw.decode()
            attribute, key = self._place(word, version)
            if self._percent:
                text = _unescaped(attribute, text, version)
            value: Any = string_of(text) if version.is_defined(attribute) and not key else value_of(text, bool(key))
            if type(value) is str and not key and (character := forbidden_character(value)):
                unfit[attribute] = version.fault(
                    attribute,
                    f"the value of {attribute} contains {character}, which is not allowed in an attribute",
                    "String",
                )
                if version.spares(attribute):
                    continue
                raise unfit[attribute]
            yield word, value

    def _place(self, name: str, version: Version) -> tuple[str, str]:
        """The attribute for a name, and the key if it is a member of a map."""
        if version.extensions:
            if name[:2].lower() == ("x-" if self._http else "x_") and len(name) > 2:
                return version.extensions, _restored(name[2:])
            return _restored(name), ""
        attribute, _, key = name.lower().partition("-")
        if not self._http or not key or version.is_defined(attribute):
            return name.lower(), ""
        return attribute, key

    def _put(self, target: Any, name: str, value: Any, version: Version) -> None:
        if type(target) is not dict or name in target:
            detail = f"headers say more than once what {name} is"
            raise version.fault(name, detail, "HTTP binding section 3.1.3.1")
        if name == version.extensions and type(value) is str:
            value = value_of(value)
            if type(value) is not dict or not value:
                raise version.fault(name, f"{name} is not a JSON object with at least one member", name)
        target[name] = value

    # -- writing --------------------------------------------------------------------------------------------------

    def headers(self, attributes: dict[str, Any], version: Version) -> list[tuple[bytes, bytes]]:
        """Headers for the attributes. Raises `Refused`."""
        found: list[tuple[bytes, bytes]] = []
        for name, value in attributes.items():
            if members := self._members(name, value, version):
                infix = ("X-" if self._http else "x_") if version.extensions else f"{name}-"
                found += [self._header(infix, key, v, version, True) for key, v in members.items()]
            else:
                found.append(self._header("", name, value, version, False))
        return found

    def _members(self, name: str, value: Any, version: Version) -> dict[str, Any]:
        """The members of a map that get their own headers; none if the map goes into a single header."""
        if type(value) is not dict:
            return {}
        if version.extensions:
            names = {key.lower() for key in value} if all(map(_HEADER_NAME.fullmatch, value)) else set()
            return value if name == version.extensions and len(names) == len(value) else {}
        return value if self._http and all(map(_KEY.fullmatch, value)) else {}

    def _header(self, infix: str, name: str, value: Any, version: Version, inside: bool) -> tuple[bytes, bytes]:
        if not _HEADER_NAME.fullmatch(name):
            raise version.fault(name, f"attribute name {name!r} can't be part of a header name", "Naming Conventions")
        if not version.json_headers:
            text, safe = text_of(value), _SAFE
        else:
            read: Callable[[str], Any] = (
                string_of if version.is_defined(name) and not inside else lambda text: value_of(text, inside)
            )
            text, safe = _json_text(name, value, read, version), _SAFE_IN_JSON
        prefix = self._prefix.decode()
        if version.extensions and self._http:
            prefix, name = prefix.upper(), name[0].upper() + name[1:]
        return f"{prefix}{infix}{name}".encode(), (quote(text, safe) if self._percent else text).encode()


def string_of(text: str) -> str:
    """The string in a header, with or without quotes."""
    if text[:1] == '"':
        try:
            return _string(text)
        except (msgspec.DecodeError, RecursionError):
            pass
    return text


def value_of(text: str, inside: bool = False) -> Any:
    """The JSON value of a header. Text that is not JSON, or not a valid attribute value, stays text; `inside` a map
    every value is valid."""
    if text[:1] not in _JSON_STARTS:
        return text
    try:
        value = _any(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    if inside or type(value) in (str, bool, dict) or (type(value) is int and -_MAX_INTEGER <= value < _MAX_INTEGER):
        return value
    return text


def _json_text(name: str, value: Any, read: Callable[[str], Any], version: Version) -> str:
    if type(value) is str and read(value) == value:
        return value
    try:
        return _json(value).decode()
    except (msgspec.MsgspecError, UnicodeError, TypeError, RecursionError) as e:
        raise version.fault(name, f"the value of {name} can't be written as JSON: {e}", "Type System") from e


def _version(attributes: dict[str, Any]) -> Version:
    name = "specversion" if "specversion" in attributes else _MARK
    word = attributes.get(name.lower())
    if word is None:
        return version_of(attributes)
    version = version_of({name: string_of(word)})
    return version if version.json_headers else version_of({name: word})


def _restored(name: str) -> str:
    """The name in the released 0.1 for a header name, in which the first letter was capitalised or all letters made
    lower case."""
    lower = name.lower()
    return _RESTORED.get(lower) or (lower if name == lower else name[0].lower() + name[1:])


def _unescaped(attribute: str, text: str, version: Version) -> str:
    try:
        return uri_of_header(text) if attribute.lower() in URIS else unquote(text, errors="strict")
    except UnicodeDecodeError as e:
        detail = f"the value of {attribute}, percent-decoded, is not UTF-8"
        raise version.fault(attribute, detail, "HTTP binding section 3.1.3.2") from e
