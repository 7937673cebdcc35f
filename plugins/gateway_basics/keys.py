"""Key mappers: the record key for an event. They read the event and never change it (Kafka binding section 3.1)."""

from __future__ import annotations

from gateway_core.component import BuildContext
from gateway_core.event import Event, text_of
from gateway_core.interfaces import KeyMapper

from .config import AttributeKeyConfig, NoOptions


def build_none(config: NoOptions, context: BuildContext) -> KeyMapper:
    """No key at all."""
    return _no_key


def build_partitionkey(config: NoOptions, context: BuildContext) -> KeyMapper:
    """The value of the `partitionkey` extension."""
    return _attribute("partitionkey")


def build_attribute(config: AttributeKeyConfig, context: BuildContext) -> KeyMapper:
    """The value of an attribute."""
    return _attribute(config.name)


def _no_key(event: Event) -> bytes | None:
    return None


def _attribute(name: str) -> KeyMapper:
    def key(event: Event) -> bytes | None:
        value = event.attributes.get(name)
        return None if value is None else text_of(value).encode()

    return key
