"""Shortages of memory: a `MemoryError` at a place of the plugins' or the gateway's code, while a fault lasts."""

from __future__ import annotations

import importlib
from typing import Any

PLUGINS = ("codec", "filter", "mapper", "sink", "observer", "authenticator")
"""Components of `plugins.py`, which look for themselves."""

FUNCTIONS = (
    "gateway_log.channel:_encode",  # an event's attributes, on the way into the log
    "gateway_log.writer:sequence_rows",  # the rows of a commit
    "gateway_log.cursor:_row",  # a cursor that is written
    "gateway_log.reader:_decode",  # an event that is read again
    "gateway_core.delivery.subscription:Delivery",  # an event that a trigger takes
    "gateway_core.delivery.dead_letter:with_facts",  # a dead letter
    "gateway_http.client:header_lines",  # a request to a subscriber
    "gateway_cloudevents.event_json:dump",  # a line of the dead letters' file
)
"""Functions and classes of the gateway, as `module:name`."""

PLACES = (*PLUGINS, *FUNCTIONS)
"""What the `amount` of a fault `memory` counts."""


def raising(*args: Any, **options: Any) -> Any:
    """Stands where the function was."""
    raise MemoryError


class Shortages:
    """The functions that have no memory now."""

    def __init__(self) -> None:
        self._whole: dict[str, tuple[Any, int]] = {}
        """The functions themselves, and how many faults want them to fail."""

    def begin(self, place: str) -> None:
        """From now on the function raises."""
        if place not in FUNCTIONS:
            return
        module, _, name = place.partition(":")
        whole, count = self._whole.get(place, (getattr(importlib.import_module(module), name), 0))
        self._whole[place] = whole, count + 1
        setattr(importlib.import_module(module), name, raising)

    def over(self, place: str) -> None:
        """It is itself again, unless another fault lasts."""
        if place not in self._whole:
            return
        whole, count = self._whole.pop(place)
        if count > 1:
            self._whole[place] = whole, count - 1
            return
        module, _, name = place.partition(":")
        setattr(importlib.import_module(module), name, whole)

    def end(self) -> None:
        """All are over."""
        for place in list(self._whole):
            self._whole[place] = self._whole[place][0], 1
            self.over(place)
