"""What any target may have to check: refusals, events that were written and read again, and what people read."""

from __future__ import annotations

import re
from pathlib import Path

from gateway_testing import FakeClock
from gateway_transport.messages import reader, writer

from gateway_core.config.registry import Registry
from gateway_core.contract.component import Binding, BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message

_CONTROL = re.compile("[^\n\t -~\xa0-\U0010ffff]")
JSON_EVENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}'


def check_refusal(refused: Refused) -> None:
    """What any refusal must be."""
    assert not refused.detail.startswith("the codec failed"), refused.detail
    assert refused.status in (400, 413, 415)
    assert 0 < len(refused.detail) < 2000, "an answer as long as what was sent"


def check_same(event: Event, back: Event) -> None:
    """What a transport gives back of an event."""
    if event.attributes.get("specversion") == "1.0":
        assert back.attributes.keys() >= event.attributes.keys(), "an attribute is lost"
    assert (back.data or b"").strip() == (event.data or b"").strip()


def check_plain(text: str) -> None:
    """A terminal may show it."""
    assert not _CONTROL.search(text), "a fault writes control characters"


class Side:
    """A binding, with what reads its messages and `writers` of both modes."""

    def __init__(self, binding: Binding) -> None:
        context = BuildContext("fuzz", Path(), FakeClock(), Registry.installed(), binding=binding)
        self.read = reader(CodecRef("cloudevents"), binding, context)
        modes = ("binary", "structured")
        self.writers = [writer(CodecRef("cloudevents", {"mode": mode}), binding, context) for mode in modes]

    def event(self, message: Message) -> Event | None:
        """The event in a message; None if it is refused as it must be."""
        try:
            return self.read(message)
        except Refused as e:
            refused = e
        check_refusal(refused)
        return None
