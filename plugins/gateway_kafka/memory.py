"""Which topics this gateway's consumer groups have had a place in: Kafka forgets the places of a group that has been
empty for a week (`offsets.retention.minutes`), and a group without a place looks like a new one."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from hashlib import sha256

from gateway_core.component import BuildContext
from gateway_core.files import private_folder, replace_file

from .client import KafkaFault

log = logging.getLogger("tidegate.kafka")


class PlaceLost(KafkaFault):
    """The cluster has forgotten where a group was. Nothing is read until somebody has said where it begins."""

    def __init__(self, group: str, topics: Collection[str]) -> None:
        super().__init__(
            f"the group {group} has read {', '.join(sorted(topics))} from here, and Kafka has no offsets of it any more"
            f" (they expired: see offsets.retention.minutes; or somebody deleted them). It reads nothing, so that no"
            f" event is skipped, until you say where it begins: `tidegate offsets reset --group {group} --to earliest`"
            f" (or latest, or a time)"
        )


class Memory:
    """One group's, in a file of its own under the data directory."""

    def __init__(self, context: BuildContext, group: str) -> None:
        self._folder = context.data_dir / "kafka"
        self._group = group
        self._name = sha256(group.encode()).hexdigest()[:24]
        self._path = self._folder / f"{self._name}-{context.worker}.json"  # a file has one writer

    def topics(self) -> dict[str, str]:
        """The topics in which the group has had a place, with their ids."""
        found: dict[str, str] = {}
        for path in sorted(self._folder.glob(f"{self._name}-*.json")):
            try:
                found |= json.loads(path.read_bytes())["topics"]
            except (OSError, ValueError, KeyError, TypeError) as e:
                log.error("what is known of the group %s can't be read, and is left out: %s: %s", self._group, path, e)
        return found

    def keep(self, ids: Mapping[str, str]) -> None:
        """The group has a place in these topics. "" is an id that is not known: nothing can be said of it later."""
        before = self.topics()
        after = before | {topic: id for topic, id in ids.items() if id}
        if after == before:
            return
        try:
            private_folder(self._folder)
            replace_file(self._path, json.dumps({"group": self._group, "topics": after}, indent=1).encode())
        except OSError as e:
            log.warning("the group %s can't be remembered: %s: %s", self._group, self._path, e)
