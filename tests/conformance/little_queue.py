"""A queue in memory, and a source that fetches from it: right, or with one planted fault.

The queue numbers the deliveries of each connection from 1, and an acknowledgement names a number, as AMQP 0-9-1 has it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup
from gateway_cloudevents.bindings import HTTP
from gateway_testing.suites import SourceRemote
from gateway_testing.vectors import Vector
from gateway_transport.connection import Connection
from gateway_transport.handover import Handover
from gateway_transport.messages import reader
from gateway_transport.not_an_event import wrapped

from gateway_core.contract.component import BuildContext, CodecRef, Config
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Accepted, Intake, Outcome
from gateway_core.contract.outcome import Stage

log = logging.getLogger("tests.little_queue")


class Queue(SourceRemote):
    """Messages wait in order; what a connection did not acknowledge goes back to the front."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._links: list[Link] = []
        self._turn = 0
        self._done = 0
        self._away = False
        self.copies = False  # each connection gets all messages

    async def publish(self, vector: Vector) -> None:
        self._waiting.append(vector.binary())
        self._deliver()

    async def nonsense(self) -> None:
        self._waiting.append(Message([], b"{nonsense"))
        self._deliver()

    async def leave(self) -> None:
        self._away = True
        for link in list(self._links):
            link.close()

    async def take(self) -> None:
        self._away = False

    async def acknowledged(self) -> int | None:
        return self._done

    def connect(self, deliver: Callable[[Message, int], None]) -> Link:
        if self._away:
            raise ConnectionRefusedError("the queue is down")
        link = Link(self, deliver)
        self._links.append(link)
        return link

    def _deliver(self) -> None:
        links = [link for link in self._links if link.open]
        if self.copies:
            for message in [*self._waiting] if links else []:
                for link in links:
                    link.give(message)
            links and self._waiting.clear()
        while links and self._waiting:
            self._turn += 1
            links[self._turn % len(links)].give(self._waiting.popleft())

    def closed(self, link: Link) -> None:
        self._links.remove(link)
        self._waiting.extendleft(message for _, message in sorted(link.given.items(), reverse=True))
        self._deliver()

    def settled(self) -> None:
        self._done += 1


class Link:
    """One connection."""

    def __init__(self, queue: Queue, deliver: Callable[[Message, int], None]) -> None:
        self._queue = queue
        self._take = deliver
        self._count = 0
        self.open = False
        self.given: dict[int, Message] = {}
        self.ended = anyio.Event()

    def subscribe(self) -> None:
        self.open = True
        self._queue._deliver()

    def give(self, message: Message) -> None:
        self._count += 1
        self.given[self._count] = message
        self._take(message, self._count)

    def ack(self, number: int) -> None:
        if not self.ended.is_set() and self.given.pop(number, None) is not None:
            self._queue.settled()

    def close(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self.open = False
            self._queue.closed(self)


class QueueConfig(Config):
    """A test's."""

    codec: CodecRef = CodecRef("cloudevents")


class QueueSource:
    """`fault` names what it does wrong; "" for nothing."""

    pulls = True
    address = "queue:"

    def __init__(self, queue: Queue, config: QueueConfig, context: BuildContext, fault: str = "") -> None:
        self._queue = queue
        self._fault = fault
        self._clock = context.clock
        self._read = reader(config.codec, HTTP, context)
        self._link: Link | None = None
        self._intake: Intake
        self._handover: Handover[int] = Handover("test", self.address, context.clock, self._settle)
        self._connection = Connection("test", "the queue", self._session)
        self.shares = True
        queue.copies = fault == "every worker gets all"

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        if self._fault == "needs the remote side to start":
            self._queue.connect(self._take).close()
        self._intake = self._handover.intake = Answers(intake, self._fault)
        await self._connection.start(tasks)

    async def stop(self) -> None:
        link = self._link
        if self._fault == "goes on after a stop":
            return
        if link is not None:
            link.open = False
        if self._fault == "never ends":
            while self._handover.held:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        while self._fault == "waits for the queue at its end" and not self._connection.connected:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        if self._fault != "answers nobody at a stop":
            await self._handover.drain()
        await self._connection.stop()

    def info(self) -> dict[str, Any]:
        error = None if self._fault == "hides outages" else self._connection.error
        return {"address": self.address, "error": error, "lag": None}

    async def _session(self, connected: Callable[[], None]) -> None:
        if self._fault == "never reconnects" and self._connection.losses:
            await anyio.sleep_forever()
        link = self._link = self._queue.connect(self._take)
        try:
            connected()
            link.subscribe()
            await link.ended.wait()
        finally:
            link.close()
            if self._fault != "keeps old numbers":
                self._handover.drop()

    def _take(self, message: Message, number: int) -> None:
        if self._fault == "acknowledges at once":
            self._settle(number)
        try:
            event = self._read(message)
        except Refused as e:
            if self._fault == "dies of a codec" and "codec" in e.detail:
                raise
            self._not_an_event(message, number, e)
            return
        if self._fault == "forgets the time":
            event.received_ns = 0
        self._handover.take(event, number)

    def _not_an_event(self, message: Message, number: int, error: Refused) -> None:
        if self._fault == "stands still at nonsense":
            return
        if self._fault == "writes every nonsense to the log":
            log.warning("nonsense: %s", error)
        if self._fault == "acknowledges nonsense at once":
            self._settle(number)
        event = wrapped(id=str(number), source="queue:", type="nonsense", data=message.body)
        self._handover.dead_letter(event, number, Outcome(False, stage=Stage.DECODE, reason=error.detail))

    def _settle(self, number: int) -> None:
        if self._link is not None and self._fault != "never acknowledges":
            self._link.ack(number)


class Answers:
    """An intake whose answers a faulty source gets wrong."""

    def __init__(self, inner: Intake, fault: str) -> None:
        self._inner = inner
        self._fault = fault
        self.stores, self.admissions, self.deduplicates = inner.stores, inner.admissions, inner.deduplicates
        self.refuse, self.attempted, self.withdraw = inner.refuse, inner.attempted, inner.withdraw

    def accept(self, events: Any, done: Accepted) -> None:
        if self._fault == "turns groups round":
            events = list(reversed(events))
        if self._fault == "gives up what is refused":
            self._inner.accept(events, lambda error: done(None if isinstance(error, Refused) else error))
        elif self._fault == "acknowledges what failed":
            self._inner.accept(events, lambda error: done(None))
        elif self._fault == "tries once":
            self._inner.accept(events, lambda error: None if error is not None else done(None))
        else:
            self._inner.accept(events, done)

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        self._inner.undeliverable(event, outcome, dest, done)
