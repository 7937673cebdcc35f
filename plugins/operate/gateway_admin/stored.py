"""Applied triggers that are in the data directory must obey the rule of those that come (`permits`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path

from gateway_core.contract.config_node import dotted
from gateway_core.contract.config_yaml import read
from gateway_core.contract.errors import Fault
from gateway_core.contract.loaded import Loaded

from .applied import Applied
from .permits import Permits

NOT_ALLOWED = "an applied trigger may not reach this (see `apply` in the config)"


def stored_faults(loaded: Loaded, applied: Applied, permits: Permits, without: Collection[str] = ()) -> list[Fault]:
    """What the stored triggers reach and may not, with file and line. Those in `without` are left out."""
    return [
        dataclasses.replace(fault, remedy=f"{fault.remedy}; or `tidegate delete trigger {name}`")
        for name, fault in _found(loaded, applied, permits)
        if name not in without
    ]


def _found(loaded: Loaded, applied: Applied, permits: Permits) -> Iterator[tuple[str, Fault]]:
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
                yield name, dataclasses.replace(fault, file=file)
        for found in permits.faults(trigger, ("triggers", name)):
            yield name, Fault(found.message, dotted(found.place), file, line, found.remedy)
