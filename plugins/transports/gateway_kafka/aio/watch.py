"""Checks whether a consumer's cluster still responds: aiokafka reconnects forever without reporting it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import anyio
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from ..client import KafkaFault, Partition
from ..client_config import KafkaConfig
from ..health import Health
from .faults import probe

CHECK_S = 2.0
LOOK_S = 1.0
"""How often a consumer checks whether its topics are still the same."""
_STUCK = 5  # failed checks of a reachable cluster before the client is replaced
_IDLE = 3  # a client without partitions makes one of this many checks


class Watch:
    """Checks a cluster that has been silent, and reports to `health`."""

    def __init__(self, config: KafkaConfig, health: Health) -> None:
        self._config = config
        self._health = health
        self._turn = 0
        self._stuck = 0

    async def look(self, consumer: Any, ours: Collection[Partition]) -> bool:
        """False if the cluster can be reached, but not by this client: all brokers may have new addresses, and aiokafka
        only tries the ones it knows."""
        self._turn += 1
        try:
            await self._ask(consumer, sorted(ours))
        except KafkaFault as fault:
            self._health.bad(fault)
        except (KafkaError, OSError):  # TimeoutError is an OSError
            await self._find_out()
        else:
            self._stuck = 0
            if self._health.fault is not None and ours:
                self._health.good()
        return self._stuck < _STUCK

    async def _ask(self, consumer: Any, ours: list[Partition]) -> None:
        if ours:
            with anyio.fail_after(CHECK_S):
                await consumer.end_offsets([TopicPartition(*ours[self._turn % len(ours)])])
        elif self._turn % _IDLE == 0 or self._health.fault is not None:
            await probe(self._config)

    async def _find_out(self) -> None:
        try:
            await probe(self._config)
        except KafkaFault as fault:
            self._health.bad(fault)
        else:
            self._stuck += 1
            self._health.bad(KafkaFault("the leader of a partition does not answer"))
