"""The thread that owns a librdkafka consumer: all calls of it are made here.

confluent-kafka lets one thread at a time into a consumer, and the others wait until a poll has ended; so what the loop
wants done is put into a queue which is looked at between two polls. The thread waits for the loop (a member that is
asked what to commit, a loop that is behind with the records), the loop never for the thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Protocol

from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ..aio.standing import Standing
from ..client import KafkaFault, Partition, Record
from ..config import KafkaConfig
from .faults import fault_of, text_of
from .options import consumer_options, tokens_of
from .places import checked, starts
from .watch import Watch

_log = logging.getLogger("tidegate.kafka")
_POLL_S = 0.02  # how long what the loop wants may wait
_AGAIN_S = 1.0
_AHEAD = 2  # batches that the loop has not looked at yet

Offsets = Mapping[Partition, int]
Done = Callable[[KafkaFault | None], None]

_NOT_OURS = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._NO_OFFSET,
}


class Place:
    """An assignment of a partition to us. Assigned anew it is another one.

    On the loop: `paused`; `held` are batches that came while it was; `stopped`, librdkafka was told to pause.
    """

    __slots__ = ("held", "kept", "name", "paused", "records", "stopped")

    def __init__(self, name: Partition) -> None:
        self.name = name
        self.records: list[Record] = []  # the thread's, of the batch in work
        self.paused = False
        self.stopped = False
        self.held: deque[tuple[list[Record], int]] = deque()
        self.kept = 0


class Owner(Protocol):
    """Called on the loop, except `revoked`, which is a coroutine to be run there."""

    def tried(self) -> None: ...
    def assigned(self, places: Sequence[tuple[Place, int]]) -> None: ...
    async def revoked(self, places: Sequence[Place]) -> Offsets: ...
    def lost(self, places: Sequence[Place]) -> None: ...
    def fetched(self, batch: Sequence[tuple[Place, list[Record], int]]) -> None: ...


class Reader:
    """Reads as a member of a group until it is closed."""

    def __init__(
        self,
        config: KafkaConfig,
        group: str,
        topics: Sequence[str],
        most: int,
        session_timeout_s: float,
        standing: Standing,
        owner: Owner,
    ) -> None:
        self.refusal: KafkaFault | None = None
        self._config = config
        self._group = group
        self._topics = list(topics)
        self._most = most
        self._session_s = session_timeout_s
        self._standing = standing
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._tokens = tokens_of(config)
        self._watch = Watch(config, standing, self._tokens)
        self._wanted: deque[Callable[[Any], None]] = deque()
        self._commits: deque[tuple[Offsets, Done]] = deque()
        self._committing: tuple[Offsets, list[Done]] | None = None
        self._room = threading.Semaphore(_AHEAD)
        self._closing = threading.Event()
        self._tried = False
        self._missing = False  # a topic that is not there, or that we may not read
        self._ours: dict[Partition, Place] = {}
        self._thread = threading.Thread(target=self._run, name="tidegate-kafka-consumer", daemon=True)
        self._thread.start()

    # -- from the loop ---------------------------------------------------------------------------------------------

    def stop(self, place: Place) -> None:
        """librdkafka fetches nothing of it any more."""
        self._wanted.append(lambda client: self._switch(client.pause, place))

    def go(self, place: Place) -> None:
        self._wanted.append(lambda client: self._switch(client.resume, place))

    def commit(self, offsets: Offsets, done: Done) -> None:
        """Commits what is ours of it; `done` is called on the loop."""
        self._commits.append((offsets, done))

    def taken(self) -> None:
        """The loop has looked at a batch."""
        self._room.release()

    def close(self) -> None:
        self._closing.set()

    def join(self) -> None:
        self._thread.join()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _tell(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:  # the loop has ended
            self._closing.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            client = self._made()
            if client is None:
                break
            try:
                client.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
                self._read(client)
            except Exception as error:
                _log.error("consumer group %s: begins anew: %s", self._group, error, exc_info=True)
                self._closing.wait(_AGAIN_S)
            self._leave(client)
        for _, done in self._commits:
            self._tell(done, KafkaFault("the consumer has been closed"))

    def _made(self) -> Any:
        while not self._closing.is_set():
            try:
                if self._tokens is not None:
                    self._tokens.token_now()  # librdkafka's constructor would wait ten seconds for one
                self._watch.fatal = False
                return RdConsumer(
                    consumer_options(self._config, self._group, self._session_s)
                    | self._watch.options()
                    | {"on_commit": self._committed}
                )
            except (KafkaFault, KafkaException) as error:
                fault = error if isinstance(error, KafkaFault) else fault_of(error.args[0])
                if isinstance(error, KafkaException):  # an option that librdkafka does not take: a certificate
                    fault = KafkaFault(str(fault), retry=False, credentials=True)
                self._standing.bad(fault)
                self._attempted()
                self._closing.wait(_AGAIN_S)
        return None

    def _leave(self, client: Any) -> None:
        try:
            client.close()
        except Exception as error:
            _log.warning("consumer group %s: could not leave: %s", self._group, error)
        if self._ours:
            self._forget(list(self._ours.values()))
        committing, self._committing = self._committing, None
        if committing is not None:
            for done in committing[1]:
                self._tell(done, KafkaFault("the consumer has been closed"))

    def _read(self, client: Any) -> None:
        poll, consume, watch, more = client.poll, client.consume, self._watch, self._most - 1
        while not self._closing.is_set() and not watch.fatal:
            while self._wanted:
                self._wanted.popleft()(client)
            if self._commits and self._committing is None:
                self._commit(client)
            first = poll(_POLL_S)
            if first is not None:
                found = [first]
                if more:
                    found += consume(more, 0)
                self._hand(client, found)
            elif not self._tried:
                self._try(client)
            if first is None and self._standing.fault is not None and not self._missing:
                watch.look(client)

    def _hand(self, client: Any, found: list[Any]) -> None:
        """Gives records to the loop; waits while it is behind."""
        ours = self._ours
        touched: list[Place] = []
        for message in found:
            if message.error() is not None:
                self._error(client, message)
                continue
            place = ours.get((message.topic(), message.partition()))
            if place is None:
                continue
            records = place.records
            if not records:
                touched.append(place)
            records.append(
                Record(
                    message.offset(),
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    message.headers() or (),
                )
            )
        if not touched:
            return
        if self._standing.fault is not None:
            self._missing = False
            self._watch.good()
        batch = []
        for place in touched:
            records, place.records = place.records, []
            _, high = client.get_watermark_offsets(TopicPartition(*place.name), cached=True)
            batch.append((place, records, max(high, records[-1].offset + 1)))
        while not self._room.acquire(timeout=0.5):
            if self._closing.is_set():
                return
        self._tell(self._owner.fetched, batch)

    def _error(self, client: Any, message: Any) -> None:
        error = message.error()
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._reset(client, (message.topic(), message.partition()), message.offset())
        elif error.fatal():
            self._watch.error(error)
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            self._missing = True
            self._standing.bad(KafkaFault(f"the topic {message.topic()} does not exist"))
        elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            self._missing = True
            self._standing.bad(fault_of(error, f"group {self._group}, topics {', '.join(self._topics)}"))
        else:
            self._watch.error(error)

    def _reset(self, client: Any, name: Partition, offset: int) -> None:
        """The next offset of a partition is not there (any more)."""
        place = self._ours.get(name)
        if place is None:
            return
        start = checked(client, name, offset, self._group, self._config.request_timeout_s)
        if start < offset:  # what the member knows of the partition holds no longer
            self._tell(self._owner.lost, [place])
            place = self._ours[name] = Place(name)
            self._tell(self._owner.assigned, [(place, start)])
        client.seek(TopicPartition(*name, start))

    def _try(self, client: Any) -> None:
        if self._standing.fault is None:
            try:
                client.cluster_id(timeout=_POLL_S)
            except KafkaException:
                return
        self._attempted()

    def _attempted(self) -> None:
        fault = self._standing.fault
        self.refusal = fault if fault is not None and fault.credentials else self._watch.heard
        self._tried = True
        self._tell(self._owner.tried)

    def _switch(self, method: Callable[[list[Any]], None], place: Place) -> None:
        if self._ours.get(place.name) is place:
            try:
                method([TopicPartition(*place.name)])
            except KafkaException as error:
                _log.debug("Kafka: %s", text_of(error.args[0]))

    # -- rebalances (called by librdkafka inside a poll) -----------------------------------------------------------

    def _assigned(self, client: Any, partitions: Sequence[Any]) -> None:
        begin = self._starts(client, partitions) if partitions else {}
        if begin is None:
            return
        told = []
        for name, offset in begin.items():
            place = self._ours[name] = Place(name)
            told.append((place, max(offset, 0)))
        if told:
            self._missing = False
            self._watch.good()
        self._tell(self._owner.assigned, told)  # also of nothing: then all that is left to know is that it has joined
        client.incremental_assign([TopicPartition(*name, offset) for name, offset in begin.items()])

    def _starts(self, client: Any, partitions: Sequence[Any]) -> dict[Partition, int] | None:
        while not self._closing.is_set():
            try:
                return starts(client, partitions, self._group, self._config.request_timeout_s)
            except KafkaException as error:
                self._standing.bad(fault_of(error.args[0], f"the offsets of group {self._group}"))
                self._closing.wait(_AGAIN_S)
        return None

    def _revoked(self, client: Any, partitions: Sequence[Any]) -> None:
        places = self._release(partitions)
        if places:
            offsets = self._asked(places)
            if offsets:
                self._commit_last(client, offsets)
        client.incremental_unassign(list(partitions))

    def _lost(self, client: Any, partitions: Sequence[Any]) -> None:
        self._forget(self._release(partitions))
        client.incremental_unassign(list(partitions))

    def _release(self, partitions: Sequence[Any]) -> list[Place]:
        names = [(p.topic, p.partition) for p in partitions]
        return [place for name in names if (place := self._ours.pop(name, None)) is not None]

    def _forget(self, places: list[Place]) -> None:
        for place in places:
            self._ours.pop(place.name, None)
        if places:
            self._tell(self._owner.lost, places)

    def _asked(self, places: list[Place]) -> Offsets:
        """What the member wants to be committed."""
        try:
            future: Future[Offsets] = asyncio.run_coroutine_threadsafe(self._owner.revoked(places), self._loop)
        except RuntimeError:
            return {}
        while True:
            try:
                return future.result(timeout=0.5)
            except FutureTimeout:
                if self._loop.is_closed():
                    return {}
            except FutureCancelled:
                return {}
            except Exception:
                _log.exception("consumer group %s: a member failed", self._group)
                return {}

    # -- commits ---------------------------------------------------------------------------------------------------

    def _commit_last(self, client: Any, offsets: Offsets) -> None:
        if self._standing.fault is not None:
            _log.warning(
                "consumer group %s: the last offsets can't be committed: %s", self._group, self._standing.fault
            )
            return
        try:
            self._check(client.commit(offsets=_listed(offsets), asynchronous=False))
        except KafkaException as error:
            if error.args[0].code() not in _NOT_OURS:
                text = text_of(error.args[0])
                _log.warning("consumer group %s: the last offsets can't be committed: %s", self._group, text)

    def _commit(self, client: Any) -> None:
        """Begins to commit all that is wanted; one commit is under way at most."""
        merged: dict[Partition, int] = {}
        waiting: list[Done] = []
        while self._commits:
            offsets, done = self._commits.popleft()
            merged |= {name: offset for name, offset in offsets.items() if name in self._ours}
            waiting.append(done)
        if not merged:
            self._answer(waiting, None)
            return
        self._committing = (merged, waiting)
        try:
            client.commit(offsets=_listed(merged), asynchronous=True)
        except KafkaException as error:
            self._committed(error.args[0], [])

    def _committed(self, error: Any, partitions: Sequence[Any]) -> None:
        """librdkafka's `on_commit`; it also tells of `_commit_last`."""
        committing = self._committing
        if committing is None:
            return
        offsets, waiting = committing
        if partitions and {(p.topic, p.partition): p.offset for p in partitions} != offsets:
            return
        self._committing = None
        try:
            if error is not None:
                raise KafkaException(error)
            self._check(partitions)
        except KafkaException as failure:
            what = failure.args[0]
            self._answer(
                waiting, None if what.code() in _NOT_OURS else fault_of(what, f"commit of group {self._group}")
            )
        else:
            self._answer(waiting, None)

    def _check(self, partitions: Sequence[Any]) -> None:
        for partition in partitions:
            if partition.error is not None:
                raise KafkaException(partition.error)

    def _answer(self, waiting: list[Done], fault: KafkaFault | None) -> None:
        for done in waiting:
            self._tell(done, fault)


def _listed(offsets: Offsets) -> list[Any]:
    return [TopicPartition(*name, offset) for name, offset in offsets.items()]
