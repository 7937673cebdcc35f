"""Applied triggers that are in the data directory must obey the rule of those that come (`permits`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from gateway_core.config.load import Loaded
from gateway_core.config.yaml import read
from gateway_core.contract.config_node import dotted
from gateway_core.contract.errors import Fault

from .applied import Applied
from .permits import Permits


def stored_faults(loaded: Loaded, applied: Applied, permits: Permits) -> Iterator[Fault]:
    """What the stored triggers reach and may not, with file and line."""
    for name, trigger in loaded.config.triggers.items():
        place = loaded.place("triggers", name)
        if place is None or place[0] != str(applied.file(name)):
            continue
        file, line = place
        try:
            documents = read(Path(file).read_bytes(), file).documents
        except OSError:
            documents = []  # it was read a moment ago, and is gone
        for document in documents:
            for fault in permits.texts(document):
                yield dataclasses.replace(fault, file=file)
        for found in permits.faults(trigger, ("triggers", name)):
            yield Fault(found.message, dotted(found.place), file, line, found.remedy)
