"""Key mappers compute the record key for an event. They never change the event (Kafka binding section 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import DecodeError
from msgspec.json import Decoder

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, text_of
from gateway_core.contract.event_data import is_json
from gateway_core.contract.interfaces import KeyMapper
from gateway_core.contract.normal_form import normal_attributes

from . import jsonpath

if TYPE_CHECKING:
    from .config import AttributeKeyConfig, HeaderKeyConfig, JsonPathKeyConfig, NoOptions

CONTENT_TYPES = ("datacontenttype", "contenttype", "contentType")  # 1.0 and 0.3, 0.2, 0.1

_string = Decoder(str).decode


def build_record(config: NoOptions, context: BuildContext) -> KeyMapper:
    """The key that the event came with."""
    return _record


def build_none(config: NoOptions, context: BuildContext) -> KeyMapper:
    """No key at all."""
    return _no_key


def build_partitionkey(config: NoOptions, context: BuildContext) -> KeyMapper:
    """The value of the `partitionkey` extension; without it the key that the event came with, the default of the
    binding (section 3.1)."""

    def key(event: Event) -> bytes | None:
        value = normal_attributes(event.attributes).get("partitionkey")
        return event.key if value is None else _utf8(text_of(value), "partitionkey")

    return key


def build_attribute(config: AttributeKeyConfig, context: BuildContext) -> KeyMapper:
    """The value of an attribute."""
    return _checked(_first_of((config.name,)), config.required, f"the attribute {config.name}", config.name)


def build_header(config: HeaderKeyConfig, context: BuildContext) -> KeyMapper:
    """The value of a header's attribute."""
    attribute = config.attribute
    names = (attribute, attribute.lower()) if attribute else CONTENT_TYPES
    return _checked(_first_of(names), config.required, f"the header {config.name}", names[0])


def build_jsonpath(config: JsonPathKeyConfig, context: BuildContext) -> KeyMapper:
    """A value from JSON data."""
    read = jsonpath.reader(config.path)

    def key(event: Event) -> bytes | None:
        if event.data is None or not (event.json_data or _is_json(event)):
            return None
        found = read(event.data)
        return None if found is None else _scalar(bytes(found))

    return _checked(key, config.required, f"a string, number or boolean at {config.path} in its JSON data", "data")


def _record(event: Event) -> bytes | None:
    return event.key


def _no_key(event: Event) -> bytes | None:
    return None


def _first_of(names: tuple[str, ...]) -> KeyMapper:
    def key(event: Event) -> bytes | None:
        attributes = normal_attributes(event.attributes)
        for name in names:
            if (value := attributes.get(name)) is not None:
                return _utf8(text_of(value), name)
        return None

    return key


def _utf8(text: str, attribute: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        raise Refused(f"the attribute {attribute} is no Unicode text", attribute=attribute) from None


def _checked(key: KeyMapper, required: bool, what: str, attribute: str) -> KeyMapper:
    """The mapper, which refuses an event without a key if one is required."""
    if not required:
        return key

    def required_key(event: Event) -> bytes:
        found = key(event)
        if found is None:
            raise Refused(f"the record key needs {what}, which the event does not have", attribute=attribute)
        return found

    return required_key


def _is_json(event: Event) -> bool:
    """Whether the content type is JSON's (json-format.md section 3.1.1)."""
    for name in CONTENT_TYPES:
        if isinstance(value := event.attributes.get(name), str):
            return is_json(value)
    return False


def _scalar(text: bytes) -> bytes | None:
    """A string in UTF-8, with half of a surrogate pair as its escape; a number or boolean as written. None for anything
    else."""
    if text[:1] == b'"':
        try:
            return _string(text).encode()
        except UnicodeDecodeError:
            return None
        except DecodeError:  # half a surrogate pair
            from gateway_json import json_text

            return json_text.string(text).encode(errors="backslashreplace")
    return None if text[:1] in (b"{", b"[") or text == b"null" else text
