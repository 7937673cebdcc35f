"""What a cluster says about topics: ids, partitions, and which are missing.

A topic that is deleted and created again keeps its name but gets a new id (KIP-516). Brokers before 2.8 have no topic
ids.
"""

from __future__ import annotations

from typing import NamedTuple


class Topics(NamedTuple):
    """What is known of the topics that were looked up."""

    leaders: dict[str, dict[int, int]]
    """The leader of each partition of each topic that exists, or -1."""
    ids: dict[str, str]
    """The id of each existing topic in hexadecimal, or "" if it is not known."""
    missing: frozenset[str]
    """The requested topics that do not exist."""
    refused: dict[str, type[Exception]]
    """aiokafka's error for each topic that the cluster says nothing about."""


class TopicIds:
    """The latest known ids of the topics that a client reads."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.missing: frozenset[str] = frozenset()

    def update(self, heard: Topics) -> None:
        """Takes over a response."""
        self.ids |= heard.ids
        self.missing = (self.missing - heard.ids.keys()) | heard.missing

    def is_gone(self, topic: str, id: str) -> bool:
        """Whether the topic with this id is known to be deleted. "" is an unknown id."""
        return topic in self.missing or bool(id and self.ids.get(topic, id) not in ("", id))
