"""Tells a consumer of the rebalances that aiokafka reports.

In a module of its own, which must not be compiled: mypyc knows nothing of aiokafka's class, and would put the fields of
an object that derives from it over those of the base.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.structs import TopicPartition


class RebalanceOwner(Protocol):
    """What is told."""

    def on_assigned(self, consumer: Any, partitions: Iterable[TopicPartition]) -> None: ...
    async def on_revoked(self, consumer: Any) -> None: ...


class RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Passes the rebalances of one of aiokafka's consumers to the owner."""

    def __init__(self, owner: RebalanceOwner, consumer: Any) -> None:
        self._owner = owner
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._owner.on_revoked(self._consumer)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._owner.on_assigned(self._consumer, assigned)
