"""What a codec may offer beside `encode`: see `gateway_core.contract.capabilities`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from gateway_core.contract.event import Event


@runtime_checkable
class TextHeaders(Protocol):
    """A codec that writes headers whose names are text, as some clients take them."""

    def text_headers(self, event: Event) -> list[tuple[str, bytes]] | None:
        """The headers of `encode(event)` if its body is the event's data. None if it is not, or if the event can't be
        encoded: `encode` says why."""
