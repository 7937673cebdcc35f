"""The place in a topic of a sink that reads it by itself (`gateway_core.interfaces.ReaderFeed`): the committed offsets
of the trigger's consumer group, which has no members. So every Kafka tool shows where it is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from .admin import Admin
from .client import KafkaFault, Partition
from .config import KafkaChannelConfig
from .health import Health
from .java_options import properties

log = logging.getLogger("tidegate.kafka")

PAUSE_S = 1.0
"""The least time between two questions to the cluster; commits within it become one."""
IDLE_S = 10.0
"""The connection is closed when nobody has wanted anything for so long."""
LAST_S = 5.0
"""How long the last commit may take."""


class KafkaReaderFeed:
    """To be `prepare`d, then `run`. `advance` and `ends` are for the event loop's thread and never wait: what the
    cluster has to be told or asked is done in the background, again and again while it is away."""

    def __init__(self, name: str, group: str, topic: str, config: KafkaChannelConfig, from_start: bool) -> None:
        """Raises `KafkaFault` where the config has what a reader can't use."""
        self.name = name
        self.group = group
        self.location = f"kafka://{','.join(config.bootstrap)}/{topic}"
        self.options: Mapping[str, Any] = {
            "kind": "kafka",
            "topic": topic,
            "group": group,
            "from_start": from_start,
            "properties": properties(config),  # of Kafka's Java clients
        }
        self.start: dict[str, int] = {}
        self.ready = anyio.Event()  # `start` is known
        self.health = Health(f"group {group}")
        self._topic = topic
        self._config = config
        self._first: Literal["earliest", "latest"] = "earliest" if from_start else "latest"
        self._ends: dict[str, int] = {}
        self._asked = False
        self._behind: dict[str, int] = {}  # to be committed
        self._wake = anyio.Event()
        self._scope = anyio.CancelScope()

    # -- the reader's side ------------------------------------------------------------------------------------------

    def advance(self, offsets: Mapping[str, int]) -> None:
        """Is committed soon."""
        self._behind.update(offsets)
        self._wake.set()

    def ends(self) -> Mapping[str, int]:
        """As of a second ago, or when it was asked last; empty where the cluster has not answered yet."""
        self._asked = True
        self._wake.set()
        return self._ends

    # -- the channel's side -----------------------------------------------------------------------------------------

    async def prepare(self, admin: Admin) -> None:
        """Says where the group begins, where it is new, and finds where it is. Raises `KafkaFault`."""
        await admin.prepare(self.group, [self._topic], self._first)
        partitions = await admin.partitions([self._topic])
        committed = await admin.committed(self.group, partitions)
        firsts = await admin.beginnings(partitions)
        ends = await admin.ends(partitions)
        self._ends = _numbered(ends)
        if lost := {p[1]: (was, firsts[p]) for p, was in committed.items() if was is not None and was < firsts[p]}:
            words = ", ".join(f"{was} to {first - 1} of partition {n}" for n, (was, first) in lost.items())
            log.error("group %s: Kafka has deleted events that were not read: offsets %s", self.group, words)
        # the same mapping all the time: others have it already
        self.start.update(_numbered({p: max(first, committed[p] or 0) for p, first in firsts.items()}))
        self.ready.set()

    async def run(self) -> None:
        """Serves the reader until it `leave`s."""
        with self._scope:
            while True:
                await self._wake.wait()
                try:
                    async with Admin(self._config) as admin:
                        if not self.ready.is_set():
                            await self.prepare(admin)
                        await self._serve(admin)
                except KafkaFault as e:
                    self.health.bad(e)
                    await anyio.sleep(PAUSE_S)
                    self._wake.set()

    def begin(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self.run)
        if not self.ready.is_set():
            self._wake.set()

    async def leave(self) -> None:
        """Commits what is left to commit, if it can be done soon."""
        self._scope.cancel()
        if not self._behind:
            return
        try:
            with anyio.move_on_after(LAST_S):
                async with Admin(self._config) as admin:
                    await self._commit(admin)
        except KafkaFault as e:
            self.health.bad(e)

    async def _serve(self, admin: Admin) -> None:
        """Does what there is to do; returns when there was nothing for a while."""
        while self._wake.is_set():
            self._wake = anyio.Event()
            if self._behind:
                await self._commit(admin)
            if self._asked:
                self._asked = False
                self._ends = _numbered(await admin.ends(await admin.partitions([self._topic])))
            self.health.good()
            await anyio.sleep(PAUSE_S)
            with anyio.move_on_after(IDLE_S):
                await self._wake.wait()

    async def _commit(self, admin: Admin) -> None:
        offsets = dict(self._behind)
        await admin.commit(self.group, {(self._topic, int(number)): offset for number, offset in offsets.items()})
        for number, offset in offsets.items():
            if self._behind[number] == offset:
                del self._behind[number]


def _numbered(offsets: Mapping[Partition, int]) -> dict[str, int]:
    return {str(number): offset for (_, number), offset in sorted(offsets.items())}
