"""Periodic work of a producer: times out old records, and diagnoses failures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

import anyio
from aiokafka import errors

from ..client import KafkaFault
from ..client_config import KafkaProducerConfig
from ..health import Health
from .batch_scheduler import Batch, BatchScheduler, Entry, TopicQueues
from .faults import probe
from .producer_connection import ProducerConnection

_log = logging.getLogger("tidegate.kafka")
_SWEEP_S = 0.1
_BROKER_S = 0.25  # a broker whose batches keep failing must not block the others
_UNKNOWN_S = 5.0  # how long a record waits for an unknown topic
_WATCH_S = 1.0
_SILENT_S = 3.0  # this long without an acknowledgement means a fault
_STUCK = 10  # probes that succeed while our records fail, before the client is replaced


class ProducerMaintenance:
    """`tell` answers records, and `end` ends a batch with an error. `answered` is the time of the last acknowledgement
    (monotonic seconds)."""

    def __init__(
        self,
        config: KafkaProducerConfig,
        scheduler: BatchScheduler,
        connection: ProducerConnection,
        health: Health,
        tell: Callable[[Iterable[Entry], KafkaFault | None], None],
        end: Callable[[Batch, BaseException], None],
    ) -> None:
        self.answered = 0.0
        self._config = config
        self._timeout = config.delivery_timeout_s
        self._scheduler = scheduler
        self._connection = connection
        self._health = health
        self._tell = tell
        self._end = end
        self._stuck = 0

    async def sweep(self) -> None:
        """Times out old records and restarts what can't make progress by itself. Runs until cancelled."""
        scheduler = self._scheduler
        while True:
            await anyio.sleep(_SWEEP_S)
            now = time.monotonic()
            scheduler.forget_idle()
            for queue in list(scheduler.busy):
                if expired := queue.expired(now):
                    self._tell(expired, self._late(queue.topic))
            for topic in list(scheduler.topics.values()):
                if topic.pending.entries:
                    self._see_to_unknown(topic, now)
            if (client := self._connection.client) is not None and (
                scheduler.no_leader.ready or scheduler.has_pending()
            ):
                client.producer.client.force_metadata_update()
            for broker in scheduler.brokers.values():
                if broker.ready and (broker.open or now - broker.closed_at > _BROKER_S):
                    broker.open = True
                    scheduler.wake()

    def _see_to_unknown(self, topic: TopicQueues, now: float) -> None:
        waiting = topic.pending
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
            del self._scheduler.topics[topic.name]  # topics named by attributes must not fill the memory
            if (client := self._connection.client) is not None and self._scheduler.topics:
                client.producer.client.set_topics(self._scheduler.topics)

    def _late(self, topic: TopicQueues) -> KafkaFault:
        fault = self._health.fault
        text = f"topic {topic.name}: not acknowledged within {self._timeout:g} s"
        why = fault or ("it no longer exists" if topic.absent else None)
        return KafkaFault(f"{text}: {why}" if why else text, credentials=fault is not None and fault.credentials)

    async def watch(self) -> None:
        """Notices that acknowledgements have stopped, and finds the reason if possible. Runs until cancelled."""
        health = self._health
        while True:
            await anyio.sleep(_WATCH_S)
            if self._connection.client is None:
                continue  # the connection reports the fault
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
        return any((oldest := queue.oldest()) is not None and oldest < limit for queue in self._scheduler.busy)

    def _give_up(self) -> None:
        """The cluster can be reached, but not by a client whose records have all timed out: all brokers may have new
        addresses, and aiokafka only tries the ones it knows. Replaces the client."""
        lost = [b for queue in self._scheduler.busy if (b := queue.batch) is not None and b.answered == len(b.entries)]
        self._stuck = self._stuck + 1 if lost else 0
        if self._stuck < _STUCK:
            return
        self._stuck = 0
        _log.warning("%d batches are abandoned; reconnecting", len(lost))
        for batch in lost:
            self._connection.abandon(batch.client)
            self._end(batch, errors.ProducerClosed())
