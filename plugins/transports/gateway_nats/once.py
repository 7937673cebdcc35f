"""Stores events with the same key once (`deduplicate` of a broker with the channel `jetstream`): the server does it.

A message's `Nats-Msg-Id` is a hash of its event's key. A stream drops a message whose id it has had within its
duplicate window, and its answer (PubAck) says so, with the sequence number of the first
(https://docs.nats.io/using-nats/developer/develop_jetstream/model_deep_dive#message-deduplication). After a restart the
server knows the ids of the messages that it still has.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from gateway_core.contract.capabilities import Repeated
from gateway_core.contract.deduplicate_config import key_reader
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event, id_of, position_of

if TYPE_CHECKING:
    from gateway_core.contract.deduplicate_config import DeduplicateConfig

    from .config import JetStreamChannelConfig

_KEPT = 1000
"""How many of the newest duplicates are known, for `tidegate why`."""


class Once:
    """The keys of a broker's events. Raises `StartError` if the server can't do what the config asks."""

    def __init__(self, config: DeduplicateConfig, options: JetStreamChannelConfig) -> None:
        if why := _fault(config, options):
            raise StartError(why)
        self.window_s = config.window
        self._names = list(config.key)
        self._text_of = key_reader(config.key)
        self._last: deque[tuple[str, str, Repeated]] = deque(maxlen=_KEPT)  # id, source
        self.duplicates = self.keyless = 0

    def message_id(self, event: Event) -> str | None:
        """The `Nats-Msg-Id`; None for an event that lacks an attribute of the key."""
        text = self._text_of(event)
        if text is None:
            self.keyless += 1
            return None
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def repeated(self, event: Event, sequence: int) -> None:
        """The stream has had this event's key, in the message with this sequence number."""
        event.duplicate, event.position = True, position_of(0, sequence)
        self.duplicates += 1
        known = Repeated(event.received_ns or time.time_ns(), event.position, False)
        self._last.append((str(id_of(event)), str(event.attributes.get("source")), known))

    def known(self, id: str, source: str | None) -> Sequence[Repeated]:
        """See `gateway_core.contract.capabilities.Deduplicates.repeated`."""
        return [each for its, of, each in self._last.copy() if its == id and source in (None, of)]

    def info(self) -> dict[str, Any]:
        """For status."""
        return {
            "window_s": self.window_s,
            "key": self._names,
            "duplicates": self.duplicates,
            "without_key": self.keyless,
        }


def _fault(config: DeduplicateConfig, options: JetStreamChannelConfig) -> str:
    if config.on_conflict == "refuse":
        return (
            "the channel `jetstream` can't do `on_conflict: refuse`, because the server compares ids and not content;"
            " use `accept_first`, or the channel `log`"
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
