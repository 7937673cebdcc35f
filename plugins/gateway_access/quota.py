"""How much a sender may send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from gateway_core.contract.component import BuildContext, Config
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.identity import Identity


class QuotaConfig(Config):
    """Limits of what may come in."""

    identities: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    """How many senders are counted by name."""


class Quotas:
    """Counts what senders use."""

    def __init__(self, options: QuotaConfig, context: BuildContext) -> None:
        self._options = options

    def attempt(self, request: Message) -> Refused | None:
        """Why a request is not even authenticated, None if it is."""

    def failed(self, request: Message) -> None:
        """A request had no or wrong credentials."""

    def request(self, who: Identity, request: Message) -> Refused | None:
        """Why a request of this sender is refused before it is decoded, None if it is not."""

    def events(self, who: Identity, events: Sequence[Event]) -> Refused | None:
        """Why these events of one request may not come in, None if they may."""
