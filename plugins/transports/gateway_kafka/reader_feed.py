"""The offsets of a sink that reads a topic itself (`gateway_core.contract.interfaces.ReaderFeed`): those of the
trigger's consumer group, which has no members. So every Kafka tool shows its progress."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from gateway_core.contract.capabilities import DeliveryState
from gateway_core.contract.event import split_position
from gateway_core.contract.start_position import StartPosition

from .admin import Admin
from .client import Begins, KafkaFault, Partition, offset_metadata
from .config import KafkaChannelConfig
from .health import Health
from .java_options import properties
from .late import started_late

log = logging.getLogger("tidegate.kafka")

PAUSE_S = 1.0
"""The minimum time between two requests to the cluster; commits within it are merged."""
IDLE_S = 10.0
"""The connection is closed after this time without a request."""
LAST_S = 5.0
"""The time limit for the last commit."""


class KafkaReaderFeed:
    """Call `prepare`, then `run`. `advance` and `ends` are called on the event loop and never wait: requests to the
    cluster are made in the background, and retried while it is down."""

    def __init__(
        self, name: str, group: str, topic: str, config: KafkaChannelConfig, start: StartPosition, data_dir: Path
    ) -> None:
        """Raises `KafkaFault` if the config has options that a reader can't use."""
        self.name = name
        self.group = group
        self.location = f"kafka://{','.join(config.bootstrap)}/{topic}"
        self._ids: dict[str, str] = {}
        self._firsts: dict[str, int] = {}
        self.options: Mapping[str, Any] = {
            "kind": "kafka",
            "topic": topic,
            "topic_ids": self._ids,  # topic -> its id, once it is known
            "group": group,
            "start": start.json(),  # where a new reader begins, and for as long as the offsets are not known
            "firsts": self._firsts,  # the first offsets that there are, once they are known
            "properties": properties(config),  # of Kafka's Java clients
        }
        self.start: dict[str, int] = {}
        self.ready = anyio.Event()  # `start` is known
        self.health = Health(f"group {group}")
        self._topic = topic
        self._config = config
        self._new = start
        self._data_dir = data_dir
        self.started_late: str | None = None  # see `capabilities.StartsLate`; known to the gateway that made the group
        self._ends: dict[str, int] = {}
        self._asked = False
        self._behind: dict[str, int] = {}  # to be committed
        self._settled: dict[str, int] = {}
        self._begins: Begins = {}
        self._wake = anyio.Event()
        self._scope = anyio.CancelScope()

    # -- for the reader --------------------------------------------------------------------------------------------

    def advance(self, offsets: Mapping[str, int]) -> None:
        """Commits these offsets soon, also lower ones than before."""
        self._behind.update(offsets)
        self._settled.update(offsets)
        self._wake.set()

    def ends(self) -> Mapping[str, int]:
        """The ends as of a second ago or the last request; empty until the cluster has answered."""
        self._asked = True
        self._wake.set()
        return self._ends

    def delivery_state(self, position: int) -> DeliveryState | None:
        """See `gateway_core.contract.capabilities.TracksDeliveries`."""
        number, behind = split_position(position)
        settled = self._settled.get(str(number), self.start.get(str(number)))
        if settled is None:
            return None
        if behind > settled:
            return "unread"
        began = self._begins.get((self._topic, number), 0)
        return "before" if behind <= began <= self.start[str(number)] else "passed"

    # -- for the channel -------------------------------------------------------------------------------------------

    async def prepare(self, admin: Admin) -> None:
        """Sets the start offsets of a new group, and loads the current ones. Raises `KafkaFault`."""
        prepared = await admin.prepare(self.group, [self._topic], self._new)
        self._begins = prepared.begins
        self.started_late = await started_late(admin, self.group, self._topic, self._new, prepared, self._data_dir)
        partitions = await admin.partitions([self._topic])
        self._ids |= {self._topic: admin.ids.get(self._topic, "")}
        committed = await admin.committed(self.group, partitions)
        firsts = await admin.beginnings(partitions)
        ends = await admin.ends(partitions)
        self._ends = _numbered(ends)
        if lost := {p[1]: (was, firsts[p]) for p, was in committed.items() if was is not None and was < firsts[p]}:
            words = ", ".join(f"{was} to {first - 1} of partition {n}" for n, (was, first) in lost.items())
            log.error("group %s: Kafka deleted events before they were read: offsets %s", self.group, words)
        # updates the mappings in place, since others hold them
        self._firsts.update(_numbered(firsts))
        self.start.update(_numbered({p: max(first, committed[p] or 0) for p, first in firsts.items()}))
        self.ready.set()

    async def run(self) -> None:
        """Serves the reader until `leave`."""
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
        """Commits the remaining offsets, if that is quickly possible."""
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
        """Handles requests; returns after a while without any."""
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
        where = {(self._topic, int(number)): offset for number, offset in offsets.items()}
        words = {p: offset_metadata(self._ids.get(self._topic, ""), began) for p, began in self._begins.items()}
        await admin.commit(self.group, where, words)
        for number, offset in offsets.items():
            if self._behind[number] == offset:
                del self._behind[number]


def _numbered(offsets: Mapping[Partition, int]) -> dict[str, int]:
    return {str(number): offset for (_, number), offset in sorted(offsets.items())}
