"""Where events came from, for whoever watches: what a source knows of it and no event says."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from gateway_core.contract.event import Event


class MessageOrigin(NamedTuple):
    """Where a message came from. `place` completes "from …": a client's address, or a topic with partition and offset.
    `headers` are those of the message as they came; those named in `secret`, in lower case, hold credentials, which
    nobody may be shown, whatever their names are."""

    place: str
    headers: Sequence[tuple[bytes, bytes]] = ()
    secret: Container[bytes] = ()


Witness = Callable[[Sequence[Event], MessageOrigin], None]
"""Gets the events of a message, and where that came from, before a broker or bridge gets them. Some of them may be
refused then, or handed over again. Must be quick and not raise."""


@runtime_checkable
class Witnessed(Protocol):
    """A source that can say where its events come from."""

    def witness(self, witness: Witness | None) -> None:
        """Calls the witness from now on; None: nobody. Without one, events cost nothing more."""
