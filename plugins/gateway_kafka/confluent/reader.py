"""The thread that owns a librdkafka consumer: all calls of it are made here.

confluent-kafka lets one thread at a time into a consumer, and the others wait until a poll has ended; so what the loop
wants done is put into a queue which is looked at between two polls. The thread waits for the loop (a member that is
asked what to commit, a loop that is behind with the records), the loop never for the thread.

Some calls keep Python's global lock while they wait for librdkafka's own main thread: `subscribe`, `unsubscribe`,
`incremental_assign`, `incremental_unassign`, `pause`, `resume`. Should that thread not answer, the whole process
stands. So they are made between polls or inside one, while the client is in use, and never inside `close`: a client
gives all its partitions back before it is closed. `close`, `committed`, `seek`, `get_watermark_offsets`, `list_topics`
and a `commit` that waits let the other threads go on; at worst this one stands, and `turned` says since when.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ..client import KafkaFault, Partition, Record
from ..config import KafkaConfig
from ..health import Health
from ..topics import Ids
from .commits import Commits, Done, Offsets
from .faults import fault_of, text_of
from .headers import headers_of
from .onloop import answer
from .options import consumer_options
from .places import Place, Starts
from .watch import Watch

_log = logging.getLogger("tidegate.kafka")
_POLL_S = 0.02  # how long what the loop wants may wait
_AGAIN_S = 1.0
_AHEAD = 2  # batches that the loop has not looked at yet
_LEAVE_S = 30.0  # how long a client may take to give its partitions back
_CLOSE_S = 5.0
_ASSIGN_S = 60.0  # how long it is asked where to begin, before another client tries


class Owner(Protocol):
    """Called on the loop, except `revoked`, which is a coroutine to be run there."""

    def tried(self) -> None: ...
    def assigned(self, places: Sequence[tuple[Place, int]]) -> None: ...
    async def revoked(self, places: Sequence[Place]) -> Offsets: ...
    def lost(self, places: Sequence[Place]) -> None: ...
    def fetched(self, batch: Sequence[tuple[Place, list[Record], int]]) -> None: ...
    def passed(self, place: Place, offset: int) -> None: ...


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
        self.turned = time.monotonic()
        """When the thread was last seen to go on."""
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
        self._missing = False  # a topic that we may not read
        self._ours: dict[Partition, Place] = {}
        self._assigned_to: set[Partition] = set()  # as librdkafka has it
        self._ids: Ids = {}  # of the topics, as last heard
        self._anew = False  # this client is to be replaced
        self._leaving = False
        self._starts = Starts(group, config.request_timeout_s, self._pause)
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

    def heard(self, ids: Ids) -> None:
        """These are the topics' ids."""
        self._ids = ids

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
            self._anew = self._leaving = False
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
        self._leaving = True
        self._wanted.clear()
        try:
            self._give_back(client)
        except Exception as error:
            _log.warning("consumer group %s: could not give its partitions back: %s", self._group, error)
        if self._ours:
            self._forget(list(self._ours.values()))
        self._assigned_to.clear()
        closing = threading.Thread(target=self._close, args=(client,), name="tidegate-kafka-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_S)
        if closing.is_alive():
            _log.warning("consumer group %s: a client does not close, and is left alone", self._group)
        self._commits.drop()

    def _give_back(self, client: Any) -> None:
        """Leaves the group while librdkafka still does what it is asked, so that `close` calls nothing back."""
        if not self._assigned_to:
            return
        client.unsubscribe()
        end = time.monotonic() + _LEAVE_S
        while self._assigned_to and time.monotonic() < end:
            client.poll(_POLL_S)

    def _close(self, client: Any) -> None:
        try:
            client.close()
        except Exception as error:
            _log.warning("consumer group %s: could not leave: %s", self._group, error)

    def _read(self, client: Any) -> None:
        poll, consume, watch, more = client.poll, client.consume, self._watch, self._most - 1
        ids = self._ids
        while not self._closing.is_set() and not watch.fatal and not self._anew:
            self.turned = time.monotonic()
            while self._wanted:
                self._wanted.popleft()(client)
            if self._commits.waits:
                self._commits.go_on(client, self._committable())
            if ids is not self._ids:
                ids = self._ids
                self._look_for_renewed()
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

    def _is_gone(self, place: Place) -> bool:
        """Whether the place's topic was deleted, as far as known."""
        id = self._ids.get(place.name[0], "")
        return id is None or bool(id and place.id and id != place.id)

    def _committable(self) -> dict[Partition, str]:
        return {name: place.id for name, place in self._ours.items() if not self._is_gone(place)}

    def _look_for_renewed(self) -> None:
        """A topic that is deleted and made anew has the same name, and often offsets that can be read: who goes on at
        the old offset loses what is before it. librdkafka does go on; so another client takes over."""
        for place in self._ours.values():
            id = self._ids.get(place.name[0])
            if id and not place.id:
                place.id = id
            elif id and id != place.id:
                self._anew = True
        if self._anew:
            _log.warning("consumer group %s: a topic was deleted and made anew; reads it anew", self._group)

    def _pause(self, seconds: float) -> bool:
        """Waits; True where nobody wants the outcome any more."""
        self.turned = time.monotonic()
        end = self._closing.wait(seconds) or self._watch.fatal
        return end or any(map(self._is_gone, self._ours.values()))

    def _hand(self, client: Any, found: list[Any]) -> None:
        """Gives records to the loop; waits while it is behind."""
        ours = self._ours
        touched: list[Place] = []
        resets: dict[Partition, int | None] = {}
        ends: dict[Partition, int] = {}
        for message in found:
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    ends[message.topic(), message.partition()] = message.offset()
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    resets[message.topic(), message.partition()] = message.offset()
                else:
                    self._error(error)
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
                    headers_of(message),
                )
            )
        if resets:
            self._reset(client, {name: offset for name, offset in resets.items() if name in ours})
        if self._leaving or (touched and not self._give(client, touched)):
            return
        for name, end in ends.items():
            place = ours.get(name)
            if place is not None and end > place.next and name not in resets:
                place.next = end
                self._tell(self._owner.passed, place, end)

    def _give(self, client: Any, touched: list[Place]) -> bool:
        """Gives the records of these to the loop; False where it takes none any more."""
        if self._health.fault is not None:
            self._missing = False
            self._watch.good()
        batch = []
        for place in touched:
            records, place.records = place.records, []
            place.next = records[-1].offset + 1
            _, high = client.get_watermark_offsets(TopicPartition(*place.name), cached=True)
            batch.append((place, records, max(high, place.next)))
        while not self._room.acquire(timeout=0.5):
            self.turned = time.monotonic()
            if self._closing.is_set():
                return False
        self._tell(self._owner.fetched, batch)
        return True

    def _error(self, error: Any) -> None:
        if error.fatal():
            self._watch.error(error)
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            pass  # who looks at the topics' ids tells it
        elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            self._missing = True
            self._health.bad(fault_of(error, f"group {self._group}, topics {', '.join(self._topics)}"))
        else:
            self._watch.error(error)

    def _reset(self, client: Any, offsets: Mapping[Partition, int | None]) -> None:
        """The next offsets of these partitions are not there (any more)."""
        starts = self._starts.checked(client, offsets)
        if self._closing.is_set() or any(map(self._is_gone, self._ours.values())):
            return
        for name, start in starts.items():
            if start < (offsets[name] or 0):  # what the member knows of the partition holds no longer
                before = self._ours[name]
                self._tell(self._owner.lost, [before])
                place = self._ours[name] = Place(name, before.id)
                self._tell(self._owner.assigned, [(place, start)])
            try:
                client.seek(TopicPartition(*name, start))
            except KafkaException as error:  # it is being taken away
                _log.warning("consumer group %s: %s; begins anew", self._group, text_of(error.args[0]))
                self._anew = True

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
        self._assigned_to.update((p.topic, p.partition) for p in partitions)
        begin = None if self._leaving else self._begin(client, partitions) if partitions else {}
        if begin is None:
            return  # nothing of these is read: this client leaves
        told = []
        for place, offset in begin.items():
            self._ours[place.name] = place
            told.append((place, max(offset, 0)))
        if told:
            self._missing = False
            self._watch.good()
        self._tell(self._owner.assigned, told)  # also of nothing: then all that is left to know is that it has joined
        client.incremental_assign([TopicPartition(*place.name, offset) for place, offset in begin.items()])

    def _begin(self, client: Any, partitions: Sequence[Any]) -> dict[Place, int] | None:
        """Where to begin; None where that can't be found out by this client."""
        end = time.monotonic() + _ASSIGN_S
        while not self._closing.is_set():
            self.turned = time.monotonic()
            try:
                return self._starts.committed(client, partitions, self._ids)
            except KafkaException as error:
                self._health.bad(fault_of(error.args[0], f"the offsets of group {self._group}"))
            if time.monotonic() > end:
                self._anew = True
                return None
            self._closing.wait(_AGAIN_S)
        return None

    def _revoked(self, client: Any, partitions: Sequence[Any]) -> None:
        places = self._release(partitions)
        gone = [place for place in places if self._is_gone(place)]
        self._forget(gone)
        if left := [place for place in places if place not in gone]:
            offsets = self._asked(left)
            if offsets:
                self._commits.last(client, offsets, {place.name: place.id for place in left})
        client.incremental_unassign(list(partitions))

    def _lost(self, client: Any, partitions: Sequence[Any]) -> None:
        self._forget(self._release(partitions))
        client.incremental_unassign(list(partitions))

    def _release(self, partitions: Sequence[Any]) -> list[Place]:
        names = [(p.topic, p.partition) for p in partitions]
        self._assigned_to.difference_update(names)
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
