"""A component as one of the installed plugins offers it."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from .component import Component, Kind


@dataclass(frozen=True, slots=True)
class Offer:
    """A component and the plugin (entry-point name) that offers it."""

    kind: Kind
    component: Component
    plugin: str

    @property
    def missing(self) -> str:
        """Why it can't be built here ("needs aiokafka: install tidegate[kafka]"), or "" if it can."""
        absent = [m for m in self.component.requires if importlib.util.find_spec(m) is None]
        if not absent:
            return ""
        extra = f": install tidegate[{self.component.extra}]" if self.component.extra else ""
        return f"needs {', '.join(absent)}{extra}"
