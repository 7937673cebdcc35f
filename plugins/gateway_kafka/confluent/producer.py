"""The producer on librdkafka.

librdkafka with a `linger.ms` of 0 sends the first record that it gets alone, and breaks the others into small batches,
which takes three times the CPU; with 1 ms it makes large ones, but a lone record waits for 1.3 ms instead of 0.2. It
can't be changed while a client is in use, so there are two: the quick one, which does not linger, while few records are
under way, and from the first moment of many the other. It is changed over only when nothing is under way, so that the
order holds.
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

from gateway_core.shortage import is_shortage

from ..client import Acknowledged, Headers, KafkaFault, size_of
from ..config import KafkaProducerConfig
from ..health import Health
from .faults import fault_of
from .link import Entry, Link

_log = logging.getLogger("tidegate.kafka")
_START_S = 5.0  # how long a start waits for the cluster
_GATHER_S = 0.001  # the most that a record waits here for those before it
_CLOSE_S = 2.0
_MANY = 12  # records under way, from which on lingering pays
_MANY_S = 0.1  # how long it goes on after the last moment of many
_LINGER_MS = 1.0
_CHANGE_S = 0.25


class ConfluentProducer:
    """`client.Producer` on librdkafka. Order has one exception: a topic that takes less than a batch may have
    (`max_record_bytes`, `batch_bytes`). Its refusal of a batch comes when the next ones may be written already."""

    def __init__(self, config: KafkaProducerConfig) -> None:
        self._config = config
        self._health = Health("the Kafka producer")
        self._waiting: list[Entry] = []
        self._alone: deque[Entry] = deque()  # were refused with others of their batch, one of which was too large
        self._single: Entry | None = None
        self._turn: asyncio.Handle | None = None
        self._under_way = 0
        self._adaptive = config.linger_ms == 0
        self._link: Link | None = None  # the one in use
        self._quick: Link | None = None
        self._large: Link | None = None
        self._many_until = 0.0
        self._change_by: float | None = None  # until then a change of the client may wait for what is under way
        self._tried = anyio.Event()
        self._idle = anyio.Event()
        self._bytes = self._records = 0  # not answered yet
        self._stopping = False

    @property
    def fault(self) -> KafkaFault | None:
        """What is wrong at the moment."""
        return self._health.fault

    @property
    def waiting(self) -> tuple[int, int]:
        """The records that are not answered yet, and their bytes."""
        return self._records, self._bytes

    async def start(self, tasks: TaskGroup) -> None:
        self._loop = asyncio.get_running_loop()
        link = self._link = self._quick = self._new(self._config.linger_ms)
        if self._adaptive:  # now, for its first record takes it half a second
            self._large = self._new(_LINGER_MS)
            self._large.use(False)
        with anyio.move_on_after(_START_S):
            await self._tried.wait()
        if link.refusal is not None:
            await self._close()
            raise link.refusal

    async def stop(self) -> None:
        self._stopping = True
        if self._link is None:
            return
        try:
            self._write()
            while self._under_way:
                self._idle = anyio.Event()
                await self._idle.wait()
        finally:
            await self._close()

    async def _close(self) -> None:
        links = {link for link in (self._link, self._quick, self._large) if link is not None}
        for link in links:
            link.close()
        with anyio.CancelScope(shield=True):
            for link in links:
                with anyio.move_on_after(_CLOSE_S):
                    await anyio.to_thread.run_sync(link.join, abandon_on_cancel=True)
                self._tell(link)
        self._link = self._quick = self._large = None

    def _new(self, linger_ms: float) -> Link:
        return Link(self._config, self._health, self._told, linger_ms)

    # -- writing ---------------------------------------------------------------------------------------------------

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: Acknowledged) -> None:
        size = size_of(key, value, headers)
        self._bytes += size
        self._records += 1
        self._waiting.append((topic, key, value, headers, done, size))
        if self._turn is None:
            if self._under_way and self._adaptive and self._link is self._quick:
                self._turn = self._loop.call_later(_GATHER_S, self._write)
            else:
                self._turn = self._loop.call_soon(self._write)

    def _write(self) -> None:
        """Hands what waits to librdkafka."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._alone or self._single is not None:
            return
        if self._adaptive and not self._chosen():
            return
        waiting, self._waiting = self._waiting, []
        link = self._link
        if link is None or (produce := link.produce) is None:
            self._fail(waiting, self.fault or KafkaFault("not connected to Kafka"))
            return
        acked = link.acked
        count = 0
        for entry in waiting:
            topic, key, value, headers, *_ = entry
            try:
                produce(topic, value, key, on_delivery=partial(acked, entry), headers=headers)
                count += 1
            except Exception as error:
                self._answer(entry, self._not_taken(error))
        link.under_way += count
        self._under_way += count

    def _chosen(self) -> bool:
        """Chooses the client; False where what is under way has to be acknowledged before the other one is used."""
        now = self._loop.time()
        if self._under_way + len(self._waiting) >= _MANY:
            self._many_until = now + _MANY_S
        wanted = self._quick
        if now < self._many_until:
            wanted = self._large
        if wanted is None or wanted is self._link or wanted.produce is None:
            self._change_by = None
            return True
        if self._under_way:
            if self._change_by is None:
                self._change_by = now + _CHANGE_S
            if now < self._change_by:
                self._turn = self._loop.call_at(self._change_by, self._write)
                return False
            return True  # the cluster is slow or away: what waits has its own time to be acknowledged in
        self._change_by = None
        if self._link is not None:
            self._link.use(False)
        wanted.use(True)
        self._link = wanted
        return True

    def _fail(self, waiting: list[Entry], fault: KafkaFault) -> None:
        for entry in waiting:
            self._answer(entry, fault)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _told(self, link: Link) -> None:
        """Something has happened to the link."""
        self._tell(link)
        if link.tried and link is self._quick:
            self._tried.set()
        if link.failed:
            self._replace(link)
        if not self._under_way:
            self._single = None
            if self._alone:
                self._one_by_one()
            elif self._waiting:
                self._write()
        if not self._under_way:
            self._idle.set()

    def _replace(self, link: Link) -> None:
        """The client can't be used any more."""
        if self._stopping or link not in (self._quick, self._large):
            return
        if link is self._quick:
            new = self._quick = self._new(self._config.linger_ms)
        else:
            new = self._large = self._new(_LINGER_MS)
        new.use(link is self._link)
        if link is self._link:
            self._link = new

    def _one_by_one(self) -> None:
        """The cluster refuses a whole batch for one record that is too large: finds out which it is, in order, while
        all others wait."""
        waiting, self._waiting = self._waiting, []
        while self._alone and not self._under_way:
            entry = self._alone.popleft()
            rest, self._alone = self._alone, deque()
            self._waiting = [entry]
            self._write()
            self._single, self._alone = entry, rest
        self._waiting = waiting

    def _give_up(self, fault: KafkaFault) -> None:
        gone = [*self._alone, *self._waiting]
        self._alone.clear()
        self._waiting = []
        self._fail(gone, fault)

    def _tell(self, link: Link) -> None:
        acknowledged = link.take()
        count = len(acknowledged)
        link.under_way -= count
        self._under_way -= count
        good = self._health.fault is None
        for _ in range(count):
            entry, error = acknowledged.popleft()
            if error is not None:
                if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and entry is not self._single:
                    self._alone.append(entry)
                    continue
                fault = self._fault(error, entry[0])
                self._answer(entry, fault)
                if entry is self._single and fault.retry:  # the cluster has gone: nobody may wait for that again
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
            _log.exception("what waited for a record failed")

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
            return KafkaFault("too many records wait to be written", local=True)
        if is_shortage(error):
            return KafkaFault(str(error) or type(error).__name__, local=True)
        if isinstance(error, KafkaException):
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                most = self._config.max_record_bytes
                text = f"the record is too large: {most} bytes at most are written (max_record_bytes)"
                return KafkaFault(text, retry=False)
            return fault_of(error.args[0])
        return KafkaFault(f"the record can't be written: {error}", retry=False)
