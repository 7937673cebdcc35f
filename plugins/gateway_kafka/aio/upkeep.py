"""What a producer does from time to time: ends what has waited too long, and finds out what is wrong."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

import anyio
from aiokafka import errors

from ..client import KafkaFault
from ..config import KafkaProducerConfig
from ..health import Health
from .board import Board
from .faults import probe
from .gather import Batch, Entry, Topic
from .link import Link

_log = logging.getLogger("tidegate.kafka")
_SWEEP_S = 0.1
_LANE_S = 0.25  # a lane whose batches are all tried again and again must not stop the others
_UNKNOWN_S = 5.0  # how long a record waits for a topic that the cluster does not know
_WATCH_S = 1.0
_SILENT_S = 3.0  # without any acknowledgement for so long something is wrong
_STUCK = 10  # looks at a cluster that answers to a look, but not to us, before another client is made


class Upkeep:
    """`tell` answers records, `end` ends a batch with an error; `answered` is when the last acknowledgement came
    (monotonic seconds)."""

    def __init__(
        self,
        config: KafkaProducerConfig,
        board: Board,
        link: Link,
        health: Health,
        tell: Callable[[Iterable[Entry], KafkaFault | None], None],
        end: Callable[[Batch, BaseException], None],
    ) -> None:
        self.answered = 0.0
        self._config = config
        self._timeout = config.delivery_timeout_s
        self._board = board
        self._link = link
        self._health = health
        self._tell = tell
        self._end = end
        self._stuck = 0

    async def sweep(self) -> None:
        """Ends what has waited too long, and sees to what can't go on by itself. Until cancelled."""
        board = self._board
        while True:
            await anyio.sleep(_SWEEP_S)
            now = time.monotonic()
            board.forget_idle()
            for queue in list(board.busy):
                if expired := queue.expired(now):
                    self._tell(expired, self._late(queue.topic))
            for topic in list(board.topics.values()):
                if topic.unplaced.entries:
                    self._see_to_unknown(topic, now)
            if (client := self._link.client) is not None and (board.nowhere.ready or board.unplaced()):
                client.producer.client.force_metadata_update()
            for lane in board.lanes.values():
                if lane.ready and (lane.open or now - lane.closed_at > _LANE_S):
                    lane.open = True
                    board.wake.set()

    def _see_to_unknown(self, topic: Topic, now: float) -> None:
        waiting = topic.unplaced
        if topic.refusal is not None:
            gone, waiting.entries = waiting.entries, []
            fault: KafkaFault = topic.refusal
        elif topic.absent and self._health.fault is None:
            gone = waiting.expired(now + max(0.0, self._timeout - _UNKNOWN_S))
            fault = KafkaFault(f"the topic {topic.name} does not exist")
        else:
            gone = waiting.expired(now)
            fault = self._late(topic)
        self._tell(gone, fault)
        if not topic.queues and not waiting.entries:
            del self._board.topics[topic.name]  # whoever chooses topics by attributes must not fill the memory
            if (client := self._link.client) is not None and self._board.topics:
                client.producer.client.set_topics(self._board.topics)

    def _late(self, topic: Topic) -> KafkaFault:
        fault = self._health.fault
        text = f"topic {topic.name}: not acknowledged within {self._timeout:g} s"
        why = fault or ("it does not exist any more" if topic.absent else None)
        return KafkaFault(f"{text}: {why}" if why else text, credentials=fault is not None and fault.credentials)

    async def watch(self) -> None:
        """Notices that nothing is acknowledged any more, and finds out why, where that can be found out. Until
        cancelled."""
        health = self._health
        while True:
            await anyio.sleep(_WATCH_S)
            if self._link.client is None:
                continue  # the link tells what is wrong
            silent = self._silent()
            if silent:
                where = f"Kafka at {','.join(self._config.bootstrap)}"
                health.bad(KafkaFault(f"{where}: no record was acknowledged for {_SILENT_S:g} s"))
            if health.fault is None:
                self._stuck = 0
                continue
            try:
                await probe(self._config)
            except KafkaFault as fault:
                health.bad(fault)
            else:
                if not silent and not self._silent():
                    health.good()
                self._give_up()

    def _silent(self) -> bool:
        now = time.monotonic()
        if now - self.answered < _SILENT_S:
            return False
        limit = now + self._timeout - _SILENT_S
        return any((oldest := queue.oldest()) is not None and oldest < limit for queue in self._board.busy)

    def _give_up(self) -> None:
        """The cluster can be reached, but not by a client that has tried until the time of its records was over: all
        brokers may have new addresses, and aiokafka asks none but those it knows. Another client takes over."""
        lost = [b for queue in self._board.busy if (b := queue.batch) is not None and b.answered == len(b.entries)]
        self._stuck = self._stuck + 1 if lost else 0
        if self._stuck < _STUCK:
            return
        self._stuck = 0
        _log.warning("%d batches of records are given up; connects anew", len(lost))
        for batch in lost:
            self._link.abandon(batch.client)
            self._end(batch, errors.ProducerClosed())
