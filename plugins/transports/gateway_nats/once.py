"""Stores events with the same key once (`deduplicate` of a broker with the channel `jetstream`): the server does it.

A message's `Nats-Msg-Id` is a hash of its event's key. A stream drops a message whose id it has had within its
duplicate window, and its answer (PubAck) says so, with the sequence number of the first
(https://docs.nats.io/using-nats/developer/develop_jetstream/model_deep_dive#message-deduplication). After a restart the
server knows the ids of the messages that it still has.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from gateway_core.contract.capabilities import Repeated
from gateway_core.contract.deduplicate_config import key_reader, part_names, unlike
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event, position_of
from gateway_core.contract.found_duplicates import FoundDuplicates

if TYPE_CHECKING:
    from gateway_core.contract.deduplicate_config import DeduplicateConfig

    from .config import JetStreamChannelConfig

log = logging.getLogger("tidegate.nats")

COMPARED = 64
"""How many duplicates are compared with the first at a time, which costs a request each; others meanwhile are not."""


class Once:
    """The keys of a broker's events. Raises `StartError` if the server can't do what the config asks."""

    def __init__(self, config: DeduplicateConfig, options: JetStreamChannelConfig, stream: str) -> None:
        if why := _fault(config, options):
            raise StartError(why)
        self.window_s = config.window
        self._names = part_names(config.key)
        self._text_of = key_reader(config.key)
        self._found = FoundDuplicates(log, f"the stream {stream}")
        self.comparing = 0
        self.duplicates = self.keyless = self.uncompared = 0

    def message_id(self, event: Event) -> str | None:
        """The `Nats-Msg-Id`; None for an event that lacks an attribute of the key."""
        text = self._text_of(event)
        if text is None:
            self.keyless += 1
            return None
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def repeated(self, event: Event, sequence: int) -> Repeated:
        """The stream has had this event's key, in the message with this sequence number. `compare` it with that."""
        event.duplicate, event.position = True, position_of(0, sequence)
        self.duplicates += 1
        known = Repeated(event.received_ns or time.time_ns(), event.position, False)
        self._found.add(event, known)
        return known

    def compare(self, event: Event, repeated: Repeated, first: Event | None) -> None:
        """Counts the duplicate as a conflict if its content differs from the first's, which is None if the stream no
        longer has it."""
        if first is None:
            self.uncompared += 1
        elif unlike(event, first.attributes, first.data):
            self._found.differs(event, repeated)

    def known(self, id: str, source: str | None) -> Sequence[Repeated]:
        """See `gateway_core.contract.capabilities.Deduplicates.repeated`."""
        return self._found.of(id, source)

    def info(self) -> dict[str, Any]:
        """For status."""
        return {
            "window_s": self.window_s,
            "key": self._names,
            "duplicates": self.duplicates,
            "conflicts": self._found.conflicts,
            "not_compared": self.uncompared,
            "without_key": self.keyless,
        }


def _fault(config: DeduplicateConfig, options: JetStreamChannelConfig) -> str:
    if config.on_conflict == "refuse":
        return (
            "the channel `jetstream` can't do `on_conflict: refuse`, because the server compares ids and not content,"
            " and has stored the other events of a batch by then; use `accept_first`, or the channel `log`"
        )
    if "max_keys" in config.model_fields_set:
        return "the channel `jetstream` has no `max_keys`: the server keeps all keys of the window; leave it out"
    for name, kept in (("max_age_s", options.max_age_s), ("keep_s", options.keep_s)):
        if kept is not None and kept < config.window:
            return (
                f"the window of {config.window:g} s is longer than the channel keeps events (`{name}: {kept:g}`), and a"
                f" server that restarts knows only the keys of those that it has; set `{name}` to as much, or `window`"
                " to less"
            )
    return ""
