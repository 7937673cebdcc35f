"""The damaged shards of a log, and what an operator can do about them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from . import meta
from .reader import shard_file

log = logging.getLogger("tidegate.log")


class DamagedShards:
    """The shards that are damaged, with the reasons. Each is logged once."""

    def __init__(self, folder: Path, reasons: Mapping[int, str]) -> None:
        self._folder = folder
        self._reasons: dict[int, str] = {}
        for number, why in reasons.items():
            self.add(number, why)

    def __contains__(self, number: int) -> bool:
        return number in self._reasons

    def add(self, number: int, why: str) -> None:
        """This shard turned out to be damaged."""
        self._reasons[number] = why
        log.error("%s", self._message(number))

    def forget(self, number: int) -> None:
        """The shard could not be replaced: its next fault counts as new."""
        self._reasons.pop(number, None)

    def faults(self, lost: Mapping[str, str]) -> dict[str, str]:
        """Messages for the operator by file, together with the `lost` events of these files."""
        damage = {shard_file(self._folder, number).name: self._message(number) for number in self._reasons}
        return {name: "; ".join(d[name] for d in (damage, lost) if name in d) for name in {**damage, **lost}}

    def _message(self, number: int) -> str:
        return (
            f"{shard_file(self._folder, number)} is damaged ({self._reasons[number]}): it is no longer written, new"
            " events go to another file, and its readable events are delivered; recover it with"
            f" {meta.remedy(self._folder)} while the gateway is stopped"
        )
