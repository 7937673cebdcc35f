"""The thread that owns a librdkafka consumer and makes all calls to it.

confluent-kafka allows one thread at a time into a consumer; others wait until a poll has ended. So requests of the
event loop go into a queue, which is checked between two polls. The thread waits for the loop (for a member that chooses
offsets to commit, or for a loop that is slow to handle records), but the loop never waits for the thread.

Some calls hold Python's global lock while they wait for librdkafka's own main thread: `subscribe`, `unsubscribe`,
`incremental_assign`, `incremental_unassign`, `pause`, `resume`. If that thread did not respond, the whole process would
hang. So they are made between polls or inside one, while the client is in use, and never inside `close`: a client gives
up all its partitions before it is closed. `close`, `committed`, `seek`, `get_watermark_offsets`, `list_topics` and a
blocking `commit` release the lock; at worst only this thread hangs, and `turned` says since when.
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
from gateway_kafka.client import Begins, KafkaFault, Partition, Record
from gateway_kafka.client_config import KafkaConfig
from gateway_kafka.health import Health
from gateway_kafka.topics import Ids

from .assignment import Assignment, StartOffsets
from .commits import Commits, Done, Offsets
from .event_loop import run_on_loop
from .faults import fault_of, text_of
from .messages import sort_messages
from .options import consumer_options
from .watch import Watch

_log = logging.getLogger("tidegate.kafka")
_POLL_S = 0.02  # how long requests of the loop may wait
_AGAIN_S = 1.0
_AHEAD = 2  # batches that the loop has not taken yet
_LEAVE_S = 30.0  # how long a client may take to give up its partitions
_CLOSE_S = 5.0
_ASSIGN_S = 60.0  # how long to try to get start offsets before another client takes over


class Owner(Protocol):
    """Called on the loop, except `revoked`, a coroutine that runs there."""

    def tried(self) -> None: ...
    def assigned(self, assignments: Sequence[tuple[Assignment, int]]) -> None: ...
    async def revoked(self, assignments: Sequence[Assignment]) -> Offsets: ...
    def lost(self, assignments: Sequence[Assignment]) -> None: ...
    def fetched(self, batch: Sequence[tuple[Assignment, list[Record], int]]) -> None: ...
    def passed(self, assignment: Assignment, offset: int) -> None: ...


class ConsumerThread:
    """Reads as a member of a group until it is closed."""

    def __init__(
        self,
        config: KafkaConfig,
        group: str,
        topics: Sequence[str],
        most: int,
        session_timeout_s: float,
        begins: Begins,
        health: Health,
        owner: Owner,
    ) -> None:
        self.refusal: KafkaFault | None = None
        self.turned = time.monotonic()
        """When the thread last made progress."""
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
        self._commits = Commits(group, begins, health, self._tell)
        self._room = threading.Semaphore(_AHEAD)
        self._closing = threading.Event()
        self._tried = False
        self._missing = False  # a topic that we are not authorized to read
        self._ours: dict[Partition, Assignment] = {}
        self._assigned_to: set[Partition] = set()  # according to librdkafka
        self._ids: Ids = {}  # the latest known ids of the topics
        self._replace_client = False  # this client is to be replaced
        self._leaving = False
        self._starts = StartOffsets(group, config.request_timeout_s, self._pause)
        self._worker = threading.Thread(target=self._run, name="tidegate-kafka-consumer", daemon=True)
        self._worker.start()

    # -- from the loop ---------------------------------------------------------------------------------------------

    def stop(self, assignment: Assignment) -> None:
        """Stops fetching this partition in librdkafka."""
        self._wanted.append(lambda client: self._switch(client.pause, assignment))

    def go(self, assignment: Assignment) -> None:
        self._wanted.append(lambda client: self._switch(client.resume, assignment))

    def commit(self, offsets: Offsets, done: Done) -> None:
        """Commits the offsets of our partitions; `done` is called on the loop."""
        self._commits.want(offsets, done)

    def heard(self, ids: Ids) -> None:
        """The current ids of the topics."""
        self._ids = ids

    def taken(self) -> None:
        """The loop has taken a batch."""
        self._room.release()

    def close(self) -> None:
        self._closing.set()

    def join(self) -> None:
        self._worker.join()

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
            self._replace_client = self._leaving = False
            try:
                client.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
                self._read(client)
            except Exception as error:
                _log.error(
                    "consumer group %s: unexpected error, restarting the consumer: %s",
                    self._group,
                    error,
                    exc_info=True,
                )
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
            _log.warning("consumer group %s: could not give up its partitions: %s", self._group, error)
        if self._ours:
            self._forget(list(self._ours.values()))
        self._assigned_to.clear()
        closing = threading.Thread(target=self._close, args=(client,), name="tidegate-kafka-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_S)
        if closing.is_alive():
            _log.warning("consumer group %s: a client does not close and is abandoned", self._group)
        self._commits.drop()

    def _give_back(self, client: Any) -> None:
        """Leaves the group while librdkafka still responds, so that `close` makes no callbacks."""
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
        while not self._closing.is_set() and not watch.fatal and not self._replace_client:
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

    def _is_gone(self, assignment: Assignment) -> bool:
        """Whether the topic of this assignment is known to be deleted."""
        id = self._ids.get(assignment.name[0], "")
        return id is None or bool(id and assignment.id and id != assignment.id)

    def _committable(self) -> dict[Partition, str]:
        return {name: assignment.id for name, assignment in self._ours.items() if not self._is_gone(assignment)}

    def _look_for_renewed(self) -> None:
        """Detects recreated topics. A recreated topic has the same name, and its offsets often look valid: a consumer
        that continued at its old offset would skip the records before it. librdkafka does continue, so another client
        takes over."""
        for assignment in self._ours.values():
            id = self._ids.get(assignment.name[0])
            if id and not assignment.id:
                assignment.id = id
            elif id and id != assignment.id:
                self._replace_client = True
        if self._replace_client:
            _log.warning("consumer group %s: a topic was deleted and recreated; reading the new one", self._group)

    def _pause(self, seconds: float) -> bool:
        """Waits; returns True if the result is no longer needed."""
        self.turned = time.monotonic()
        end = self._closing.wait(seconds) or self._watch.fatal
        return end or any(map(self._is_gone, self._ours.values()))

    def _hand(self, client: Any, found: list[Any]) -> None:
        """Passes records to the loop; waits while it is behind."""
        ours = self._ours
        touched, ends, resets, errors = sort_messages(found, ours)
        for error in errors:
            self._error(error)
        if resets:
            self._reset(client, {name: offset for name, offset in resets.items() if name in ours})
        if self._leaving or (touched and not self._give(client, touched)):
            return
        for name, end in ends.items():
            assignment = ours.get(name)
            if assignment is not None and end > assignment.next and name not in resets:
                assignment.next = end
                self._tell(self._owner.passed, assignment, end)

    def _give(self, client: Any, touched: list[Assignment]) -> bool:
        """Passes the records of these assignments to the loop; returns False if it accepts no more."""
        if self._health.fault is not None:
            self._missing = False
            self._watch.good()
        batch = []
        for assignment in touched:
            records, assignment.records = assignment.records, []
            assignment.next = records[-1].offset + 1
            _, high = client.get_watermark_offsets(TopicPartition(*assignment.name), cached=True)
            batch.append((assignment, records, max(high, assignment.next)))
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
            pass  # reported by the check of the topics' ids
        elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            self._missing = True
            self._health.bad(fault_of(error, f"group {self._group}, topics {', '.join(self._topics)}"))
        else:
            self._watch.error(error)

    def _reset(self, client: Any, offsets: Mapping[Partition, int | None]) -> None:
        """The next offsets of these partitions are not available."""
        starts = self._starts.checked(client, offsets)
        if self._closing.is_set() or any(map(self._is_gone, self._ours.values())):
            return
        for name, start in starts.items():
            if start < (offsets[name] or 0):  # the member's state of this partition is no longer valid
                before = self._ours[name]
                self._tell(self._owner.lost, [before])
                assignment = self._ours[name] = Assignment(name, before.id)
                self._tell(self._owner.assigned, [(assignment, start)])
            try:
                client.seek(TopicPartition(*name, start))
            except KafkaException as error:  # the partition is being revoked
                _log.warning("consumer group %s: %s; restarting the consumer", self._group, text_of(error.args[0]))
                self._replace_client = True

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

    def _switch(self, method: Callable[[list[Any]], None], assignment: Assignment) -> None:
        if self._ours.get(assignment.name) is assignment:
            try:
                method([TopicPartition(*assignment.name)])
            except KafkaException as error:
                _log.debug("Kafka: %s", text_of(error.args[0]))

    # -- rebalances (called by librdkafka inside a poll) -----------------------------------------------------------

    def _assigned(self, client: Any, partitions: Sequence[Any]) -> None:
        self._assigned_to.update((p.topic, p.partition) for p in partitions)
        begin = None if self._leaving else self._begin(client, partitions) if partitions else {}
        if begin is None:
            return  # this client leaves, and reads none of these
        told = []
        for assignment, offset in begin.items():
            self._ours[assignment.name] = assignment
            told.append((assignment, max(offset, 0)))
        if told:
            self._missing = False
            self._watch.good()
        self._tell(self._owner.assigned, told)  # even with no partitions: it says that the member has joined
        client.incremental_assign([TopicPartition(*assignment.name, offset) for assignment, offset in begin.items()])

    def _begin(self, client: Any, partitions: Sequence[Any]) -> dict[Assignment, int] | None:
        """The start offsets; None if this client can't determine them."""
        end = time.monotonic() + _ASSIGN_S
        while not self._closing.is_set():
            self.turned = time.monotonic()
            try:
                return self._starts.committed(client, partitions, self._ids)
            except KafkaException as error:
                self._health.bad(fault_of(error.args[0], f"the offsets of group {self._group}"))
            if time.monotonic() > end:
                self._replace_client = True
                return None
            self._closing.wait(_AGAIN_S)
        return None

    def _revoked(self, client: Any, partitions: Sequence[Any]) -> None:
        assignments = self._release(partitions)
        gone = [assignment for assignment in assignments if self._is_gone(assignment)]
        self._forget(gone)
        if left := [assignment for assignment in assignments if assignment not in gone]:
            offsets = self._asked(left)
            if offsets:
                self._commits.last(client, offsets, {assignment.name: assignment.id for assignment in left})
        client.incremental_unassign(list(partitions))

    def _lost(self, client: Any, partitions: Sequence[Any]) -> None:
        self._forget(self._release(partitions))
        client.incremental_unassign(list(partitions))

    def _release(self, partitions: Sequence[Any]) -> list[Assignment]:
        names = [(p.topic, p.partition) for p in partitions]
        self._assigned_to.difference_update(names)
        return [assignment for name in names if (assignment := self._ours.pop(name, None)) is not None]

    def _forget(self, assignments: list[Assignment]) -> None:
        for assignment in assignments:
            self._ours.pop(assignment.name, None)
        if assignments:
            self._tell(self._owner.lost, assignments)

    def _asked(self, assignments: list[Assignment]) -> Offsets:
        """The offsets that the member wants to commit."""
        try:
            return run_on_loop(self._loop, lambda: self._owner.revoked(assignments)) or {}
        except Exception:
            _log.exception("consumer group %s: a member failed", self._group)
            return {}
