"""Remembers which topics this gateway's consumer groups have read. Kafka deletes the offsets of a group that has been
empty for a week (`offsets.retention.minutes`), and a group without offsets looks like a new one."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path

from gateway_core.contract.component import BuildContext
from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import replace_file

from .client import KafkaFault

log = logging.getLogger("tidegate.kafka")


class OffsetsLost(KafkaFault):
    """The cluster has deleted the offsets of a group. Nothing is read until an operator says where it begins."""

    def __init__(self, group: str, topics: Collection[str]) -> None:
        super().__init__(
            f"the group {group} has read {', '.join(sorted(topics))} before, but Kafka no longer has its offsets"
            f" (they expired, see offsets.retention.minutes, or were deleted). It reads nothing, so that no event is"
            f" skipped, until you say where it begins: `tidegate offsets reset --group {group} --to earliest`"
            f" (or latest, or a time)"
        )


class GroupHistory:
    """One group's history, in a file of its own in the data directory."""

    def __init__(self, context: BuildContext, group: str) -> None:
        self._folder = context.data_dir / "kafka"
        self._group = group
        self._name = _file_name(group)
        self._path = self._folder / f"{self._name}-{context.worker}.json"  # a file has one writer

    def topics(self) -> dict[str, str]:
        """The topics that the group has read, with their ids."""
        found: dict[str, str] = {}
        for path in sorted(self._folder.glob(f"{self._name}-*.json")):
            try:
                found |= json.loads(path.read_bytes())["topics"]
            except (OSError, ValueError, KeyError, TypeError) as e:
                log.error("can't read the history of the group %s, ignoring it: %s: %s", self._group, path, e)
        return found

    def keep(self, ids: Mapping[str, str]) -> None:
        """The group now reads these topics. An unknown id ("") is not remembered."""
        before = self.topics()
        after = before | {topic: id for topic, id in ids.items() if id}
        if after == before:
            return
        try:
            private_folder(self._folder)
            replace_file(self._path, json.dumps({"group": self._group, "topics": after}, indent=1).encode())
        except OSError as e:
            log.warning("can't write the history of the group %s: %s: %s", self._group, self._path, e)


def forget(data_dir: Path, group: str) -> None:
    """The group was deleted: it may start again."""
    for path in (data_dir / "kafka").glob(f"{_file_name(group)}-*.json"):
        path.unlink(missing_ok=True)


def _file_name(group: str) -> str:
    return sha256(group.encode()).hexdigest()[:24]
