"""A codec with a bug, for suites: it raises for one event and otherwise does what `cloudevents` does."""

from __future__ import annotations

from typing import cast

from gateway_core.contract.component import BuildContext, CodecRef, Component, Config
from gateway_core.contract.event import Event, Message
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Codec

FAULTY_CODEC = "suite_faulty"
"""Its name in options that a suite adds."""
RAISES = "codec-raises"
"""The `id` of the event for which it raises."""


class FaultyConfig(Config):
    """Raises for one event."""


class FaultyCodec:
    def __init__(self, config: FaultyConfig, context: BuildContext) -> None:
        self._inner = cast(Codec, context.build(CodecRef("cloudevents", None), "inner", binding=context.binding))

    def decode(self, message: Message) -> list[Event]:
        values = [value for _, value in message.headers]
        if any(RAISES.encode() in value for value in [*values, message.body or b""]):
            raise KeyError("a bug in a codec")
        return self._inner.decode(message)

    def encode(self, event: Event) -> Message:
        if event.attributes.get("id") == RAISES:
            raise KeyError("a bug in a codec")
        return self._inner.encode(event)


@hookimpl
def gateway_codecs() -> list[Component]:
    return [Component(FAULTY_CODEC, "Raises for one event.", FaultyConfig, FaultyCodec)]
