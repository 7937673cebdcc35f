"""The codec: detects the content mode of a message, and reads and writes events."""

from __future__ import annotations

from functools import lru_cache

from gateway_transport.event_formats import essence

from gateway_core.contract.component import Binding, BuildContext
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

from . import jsonwrite
from .binary import BATCH, CODING, STRUCTURED, BinaryMode
from .bindings import rule
from .config import CloudEventsConfig
from .content_coding import decoded
from .jsonformat import JsonFormat
from .memory import Memory
from .values import charset

_PREFIX = "application/cloudevents"
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
        if content_type[: len(_PREFIX)].lower() != _PREFIX:
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
