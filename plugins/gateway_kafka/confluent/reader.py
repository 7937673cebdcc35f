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
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ..client import KafkaFault, Partition, Record
from ..config import KafkaConfig
from ..health import Health
from .commits import Commits, Done, Offsets
from .faults import fault_of, text_of
from .onloop import answer
from .options import consumer_options
from .places import Place, checked, starts
from .watch import Watch

_log = logging.getLogger("tidegate.kafka")
_POLL_S = 0.02  # how long what the loop wants may wait
_AGAIN_S = 1.0
_AHEAD = 2  # batches that the loop has not looked at yet


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
        health: Health,
        owner: Owner,
    ) -> None:
        self.refusal: KafkaFault | None = None
        self._config = config
        self._group = group
        self._topics = list(topics)
        self._most = most
        self._session_s = session_timeout_s
        self._health = health
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._watch = Watch(config, health)
        self._wanted: deque[Callable[[Any], None]] = deque()
        self._commits = Commits(group, health, self._tell)
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
        self._commits.want(offsets, done)

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
        self._commits.close()

    def _made(self) -> Any:
        while not self._closing.is_set():
            try:
                options = consumer_options(self._config, self._group, self._session_s)
                return self._watch.client(RdConsumer, options | {"on_commit": self._commits.told})
            except KafkaFault as fault:
                self._health.bad(fault)
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
        self._commits.drop()

    def _read(self, client: Any) -> None:
        poll, consume, watch, more = client.poll, client.consume, self._watch, self._most - 1
        while not self._closing.is_set() and not watch.fatal:
            while self._wanted:
                self._wanted.popleft()(client)
            self._commits.go_on(client, self._ours)
            first = poll(_POLL_S)
            if first is not None:
                found = [first]
                if more:
                    found += consume(more, 0)
                self._hand(client, found)
            elif not self._tried:
                self._try(client)
            if first is None and self._health.fault is not None and not self._missing:
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
        if self._health.fault is not None:
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
            self._health.bad(KafkaFault(f"the topic {message.topic()} does not exist"))
        elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            self._missing = True
            self._health.bad(fault_of(error, f"group {self._group}, topics {', '.join(self._topics)}"))
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
        if self._health.fault is None:
            try:
                client.cluster_id(timeout=_POLL_S)
            except KafkaException:
                return
        self._attempted()

    def _attempted(self) -> None:
        fault = self._health.fault
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
                self._health.bad(fault_of(error.args[0], f"the offsets of group {self._group}"))
                self._closing.wait(_AGAIN_S)
        return None

    def _revoked(self, client: Any, partitions: Sequence[Any]) -> None:
        places = self._release(partitions)
        if places:
            offsets = self._asked(places)
            if offsets:
                self._commits.last(client, offsets)
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
            return answer(self._loop, lambda: self._owner.revoked(places)) or {}
        except Exception:
            _log.exception("consumer group %s: a member failed", self._group)
            return {}
