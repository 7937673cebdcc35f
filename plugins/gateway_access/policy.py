"""Who may send what: the entries of `allow`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from gateway_core.contract.component import BuildContext, Config, FilterRef
from gateway_core.contract.event import Event
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Filter

from .authenticator import Forbidden


class AllowConfig(Config):
    """Allows events. All keys that are set must fit."""

    subjects: list[str] = Field(default=[], alias="from")
    """Senders. `*` at the end stands for anything. Without it, any sender."""
    claims: dict[str, Any] = {}
    """Claims of the sender, with their values."""
    filters: list[FilterRef] = []
    """Filters that the event must match, all of them."""


class Policies:
    """Entries of which at least one must allow an event."""

    def __init__(self, allow: Sequence[AllowConfig], context: BuildContext) -> None:
        self._entries = [
            (entry, [context.build(ref, f"allow[{i}]") for ref in entry.filters]) for i, entry in enumerate(allow)
        ]

    def refusal(self, events: Sequence[Event]) -> Forbidden | None:
        """Why these events may not come in together, None if they may."""
        for event in events:
            if not any(_allows(entry, filters, event) for entry, filters in self._entries):
                return Forbidden("this sender may not send this event here")
        return None


def _allows(entry: AllowConfig, filters: Sequence[Filter], event: Event) -> bool:
    who = event.identity
    if entry.subjects and not (who is not None and any(_fits(text, who.subject) for text in entry.subjects)):
        return False
    if entry.claims and not (who is not None and _claims(entry, who)):
        return False
    return all(each.matches(event) for each in filters)


def _claims(entry: AllowConfig, who: Identity) -> bool:
    return all(name in who.claims and who.claims[name] == value for name, value in entry.claims.items())


def _fits(text: str, subject: str) -> bool:
    return subject.startswith(text[:-1]) if text.endswith("*") else subject == text
