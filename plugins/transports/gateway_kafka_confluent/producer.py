"""The producer on librdkafka.

With a `linger.ms` of 0, librdkafka sends the first record alone and splits the others into small batches, which takes
three times the CPU. With 1 ms it builds large batches, but a single record waits for 1.3 ms instead of 0.2. The setting
can't be changed while a client is in use, so there are two clients: the low-latency one while few records are in
flight, and the high-throughput one, which lingers, under load. The switch happens only when nothing is in flight, so
that the order holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from confluent_kafka import KafkaError, KafkaException
from gateway_kafka.client import Acknowledged, Headers, KafkaFault
from gateway_kafka.client_config import KafkaProducerConfig
from gateway_kafka.health import Health
from gateway_kafka.records import size_of

from gateway_core.contract.shortage import is_shortage

from .faults import fault_of
from .producer_thread import Entry, ProducerThread

_log = logging.getLogger("tidegate.kafka")
_START_S = 5.0  # how long a start waits for the cluster
_GATHER_S = 0.001  # the longest that a record waits here for earlier ones
_CLOSE_S = 2.0
_MANY = 12  # records in flight, from which lingering pays
_MANY_S = 0.1  # how long to keep lingering after the load has dropped
_LINGER_MS = 1.0
_CHANGE_S = 0.25


class ConfluentProducer:
    """`client.Producer` on librdkafka. The order has one exception: a topic whose limit is below `max_record_bytes` or
    `batch_bytes`. When it rejects a batch, later ones may already be written."""

    def __init__(self, config: KafkaProducerConfig) -> None:
        self._config = config
        self._health = Health("the Kafka producer")
        self._waiting: list[Entry] = []
        self._one_by_one_queue: deque[Entry] = deque()  # rejected because another record of their batch was too large
        self._single = False  # one of these is under way, alone
        self._turn: asyncio.Handle | None = None
        self._under_way = 0
        self._adaptive = config.linger_ms == 0
        self._active: ProducerThread | None = None  # the one in use
        self._low_latency: ProducerThread | None = None
        self._high_throughput: ProducerThread | None = None
        self._many_until = 0.0
        self._change_by: float | None = None  # until then a switch may wait for records in flight
        self._tried = anyio.Event()
        self._idle = anyio.Event()
        self._bytes = self._records = 0  # not answered yet
        self._stopping = False

    @property
    def fault(self) -> KafkaFault | None:
        """The current fault."""
        return self._health.fault

    @property
    def waiting(self) -> tuple[int, int]:
        """The number of unanswered records, and their size in bytes."""
        return self._records, self._bytes

    async def start(self, tasks: TaskGroup) -> None:
        self._loop = asyncio.get_running_loop()
        thread = self._active = self._low_latency = self._new(self._config.linger_ms)
        if self._adaptive:  # early, since a new client takes half a second for its first record
            self._high_throughput = self._new(_LINGER_MS)
            self._high_throughput.use(False)
        with anyio.move_on_after(_START_S):
            await self._tried.wait()
        if thread.refusal is not None:
            await self._close()
            raise thread.refusal

    async def stop(self) -> None:
        self._stopping = True
        if self._active is None:
            return
        try:
            self._write()
            while self._under_way:
                self._idle = anyio.Event()
                await self._idle.wait()
        finally:
            await self._close()

    async def _close(self) -> None:
        threads = {thread for thread in (self._active, self._low_latency, self._high_throughput) if thread is not None}
        self._active = self._low_latency = self._high_throughput = None  # a thread that ends now is not replaced
        for thread in threads:
            thread.close()
        with anyio.CancelScope(shield=True):
            for thread in threads:
                with anyio.move_on_after(_CLOSE_S):
                    await anyio.to_thread.run_sync(thread.join, abandon_on_cancel=True)
                self._tell(thread)

    def _new(self, linger_ms: float) -> ProducerThread:
        return ProducerThread(self._config, self._health, self._told, linger_ms)

    # -- writing ---------------------------------------------------------------------------------------------------

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: Acknowledged) -> None:
        size = size_of(key, value, headers)
        self._bytes += size
        self._records += 1
        self._waiting.append((topic, key, value, headers, done, size))
        if self._turn is None:
            if self._under_way and self._adaptive and self._active is self._low_latency:
                self._turn = self._loop.call_later(_GATHER_S, self._write)
            else:
                self._turn = self._loop.call_soon(self._write)

    def _write(self) -> None:
        """Hands the waiting records to librdkafka."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._one_by_one_queue or self._single:
            return
        if self._adaptive and not self._chosen():
            return
        waiting, self._waiting = self._waiting, []
        thread = self._active
        if thread is None or (produce := thread.produce) is None:
            self._fail(waiting, self.fault or KafkaFault("not connected to Kafka"))
            return
        acked = thread.acked
        count = 0
        for entry in waiting:
            topic, key, value, headers, *_ = entry
            try:
                produce(topic, value, key, on_delivery=partial(acked, entry), headers=headers)
                count += 1
            except Exception as error:
                self._answer(entry, self._not_taken(error))
        thread.under_way += count
        self._under_way += count

    def _chosen(self) -> bool:
        """Chooses the client; False if records in flight must be acknowledged before a switch."""
        now = self._loop.time()
        if self._under_way + len(self._waiting) >= _MANY:
            self._many_until = now + _MANY_S
        wanted = self._low_latency
        if now < self._many_until:
            wanted = self._high_throughput
        if wanted is None or wanted is self._active or wanted.produce is None:
            self._change_by = None
            return True
        if self._under_way:
            if self._change_by is None:
                self._change_by = now + _CHANGE_S
            if now < self._change_by:
                self._turn = self._loop.call_at(self._change_by, self._write)
                return False
            return True  # the cluster is slow or away: waiting records have their own deadline
        self._change_by = None
        if self._active is not None:
            self._active.use(False)
        wanted.use(True)
        self._active = wanted
        return True

    def _fail(self, waiting: list[Entry], fault: KafkaFault) -> None:
        for entry in waiting:
            self._answer(entry, fault)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _told(self, thread: ProducerThread) -> None:
        """A thread has news."""
        self._tell(thread)
        if thread.tried and thread is self._low_latency:
            self._tried.set()
        if thread.failed:
            self._replace(thread)
        if not self._under_way:
            self._single = False
            if self._one_by_one_queue:
                self._one_by_one()
            if self._waiting and not self._under_way:
                self._write()
        if not self._under_way:
            self._idle.set()

    def _replace(self, thread: ProducerThread) -> None:
        """Replaces a client that can no longer be used."""
        if self._stopping or thread not in (self._low_latency, self._high_throughput):
            return
        if thread is self._low_latency:
            new = self._low_latency = self._new(self._config.linger_ms)
        else:
            new = self._high_throughput = self._new(_LINGER_MS)
        new.use(thread is self._active)
        if thread is self._active:
            self._active = new

    def _one_by_one(self) -> None:
        """The cluster rejects a whole batch because of one record that is too large: sends them one by one, in order,
        to find it, while all others wait."""
        waiting, self._waiting = self._waiting, []
        while self._one_by_one_queue and not self._under_way:
            entry = self._one_by_one_queue.popleft()
            rest, self._one_by_one_queue = self._one_by_one_queue, deque()
            self._waiting = [entry]
            self._write()  # it may be answered at once
            self._single, self._one_by_one_queue = self._under_way > 0, rest
        self._waiting = waiting

    def _give_up(self, fault: KafkaFault) -> None:
        gone = [*self._one_by_one_queue, *self._waiting]
        self._one_by_one_queue.clear()
        self._waiting = []
        self._fail(gone, fault)

    def _tell(self, thread: ProducerThread) -> None:
        acknowledged = thread.take()
        count = len(acknowledged)
        thread.under_way -= count
        self._under_way -= count
        good = self._health.fault is None
        for _ in range(count):
            entry, error = acknowledged.popleft()
            if error is not None:
                if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and not self._single:
                    self._one_by_one_queue.append(entry)
                    continue
                fault = self._fault(error, entry[0])
                self._answer(entry, fault)
                if self._single and fault.retry:  # the cluster is gone: fail the others at once
                    self._give_up(fault)
                continue
            if not good:
                good = True
                self._health.good()
            self._answer(entry, None)

    def _answer(self, entry: Entry, fault: KafkaFault | None) -> None:
        self._bytes -= entry[5]
        self._records -= 1
        try:
            entry[4](fault)
        except Exception:
            _log.exception("the callback of a record failed")

    def _fault(self, error: Any, topic: str) -> KafkaFault:
        if error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT):
            text = f"topic {topic}: not acknowledged within {self._config.delivery_timeout_s:g} s"
            fault = self.fault
            return KafkaFault(
                f"{text}: {fault}" if fault else text, credentials=fault is not None and fault.credentials
            )
        if error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL):
            return KafkaFault("the connection was closed before the record was acknowledged")
        return fault_of(error, f"topic {topic}")

    def _not_taken(self, error: Exception) -> KafkaFault:
        if isinstance(error, BufferError):
            return KafkaFault("too many records are waiting to be written", local=True)
        if is_shortage(error):
            return KafkaFault(str(error) or type(error).__name__, local=True)
        if isinstance(error, KafkaException):
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                most = self._config.max_record_bytes
                text = f"the record is too large: the limit is {most} bytes (max_record_bytes)"
                return KafkaFault(text, retry=False)
            return fault_of(error.args[0])
        return KafkaFault(f"the record can't be written: {error}", retry=False)
