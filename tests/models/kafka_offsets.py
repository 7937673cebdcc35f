"""A consumer group of two members and a partition of three records, two of them with one key. Our code is
`gateway_kafka.flow.Flow`: it decides which offset may be committed, and what happens when a partition is revoked, lost
or assigned again. The cluster and the subscription are the model's.

What must hold (docs/discussion/delivery.md, "Bridges"; docs/discussion/ordering.md):

- No event is lost: every record before the committed offset was delivered. So whoever reads on misses none.
- Order by key: the first delivery of a record comes after the first deliveries of all earlier records with its key.
- Nothing is delivered twice unless something fails: a crash, an eviction, a commit without answer, a drain that ends
  too early.
- In the end everything is delivered, and committed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from gateway_kafka.assigned_partition import AssignedPartition, Leaving
from gateway_kafka.client import Record
from gateway_kafka.flow import Flow
from gateway_testing import FakeClock

from gateway_core.contract.event import Event
from tests.models.explorer import Action, Violation

NAME = ("topic", 0)
KEYS = ("a", "b", "a")
ROOM = 2
"""Events that a subscription takes; the others wait in the flow."""
_PARTITION = 1
_MASK = (1 << 48) - 1


class Subscription:
    """Takes events (`flow.EventHandler`), and delivers them in the order of their keys."""

    def __init__(self) -> None:
        self.waiting: list[int] = []  # offsets
        self.in_flight: list[int] = []

    def take(self, events: Sequence[Event]) -> int:
        room = max(0, ROOM - len(self.waiting) - len(self.in_flight))
        self.waiting += [(event.position & _MASK) - 1 for event in events[:room]]
        self.begin()
        return min(room, len(events))

    def begin(self) -> None:
        """An event is sent once none before it with its key is in flight or waits."""
        for offset in list(self.waiting):
            before = [o for o in self.in_flight + self.waiting[: self.waiting.index(offset)] if o != offset]
            if not any(KEYS[o] == KEYS[offset] for o in before):
                self.waiting.remove(offset)
                self.in_flight.append(offset)

    def withdraw(self, partition_id: int) -> Sequence[int]:
        dropped, self.waiting = self.waiting, []
        return [_PARTITION << 48 | offset + 1 for offset in dropped]

    def refuse(self, *args: Any) -> None:
        raise NotImplementedError


class Member:
    """One gateway: its flow, and what it knows of the cluster."""

    def __init__(self, name: str, flow: Callable[..., Flow]) -> None:
        self.name = name
        self.subscription = Subscription()
        self.flow = flow(
            self.subscription,
            lambda record: Event({"id": str(record.offset)}),
            FakeClock(),
            commit_interval_s=1.0,
            drain_s=1.0,
            partition_id_of=lambda partition: _PARTITION,
            chunk=ROOM,
        )
        self.flow.consumer = self  # type: ignore[assignment]
        self.has = self.paused = False
        self.next = 0  # the record that it fetches next
        self.leaving: Leaving | None = None
        self.generation = 0
        self.committing: list[tuple[AssignedPartition, int]] = []
        self.sent_in = 0  # the generation in which that was sent

    # -- gateway_kafka.client.Consumer

    def pause(self, partition: Any) -> None:
        self.paused = True

    def resume(self, partition: Any) -> None:
        self.paused = False

    def state(self) -> Hashable:
        """What matters of it."""
        subscription, p = self.subscription, self.flow._partitions.get(NAME)
        leaving = self.leaving and tuple(
            (q.tracker.safe, frozenset(q.tracker.open)) for q, _ in self.leaving.partitions
        )
        held: Hashable = None
        if p is not None:
            tracker = p.tracker
            held = (
                *(tracker.next, frozenset(tracker.open), tuple(tracker._line), p.committed, p.start, p.settled),
                *(tuple(r.offset for r in p.queue), tuple(e.position for e in p.events), p.paused),
            )
        return (
            *(held, leaving, self.has, self.paused, self.next, self.generation),
            *(tuple((offset, q is p) for q, offset in self.committing), self.sent_in),
            *(tuple(subscription.waiting), tuple(subscription.in_flight), tuple(self.flow.released.items())),
        )


class World:
    """See `explorer.World`. `budget` is how often each kind of fault may happen: `move` is a rebalance, `hurry` a drain
    that ends while an event is in flight, `evict` a member that the cluster takes for dead, `crash` its end, `vague` a
    commit that takes place, but whose answer is lost."""

    def __init__(self, flow: Callable[..., Flow] = Flow, **budget: int) -> None:
        self._make = flow
        self.members = {name: Member(name, flow) for name in "AB"}
        self.budget = {"move": 2, "hurry": 0, "evict": 0, "crash": 0, "vague": 0, **budget}
        self.spent = False  # something failed
        self.owner: str | None = None
        self.generation = 0
        self.committed = 0
        self.delivered: list[int] = []
        self.assign("A")

    # -- what may happen

    def actions(self) -> Sequence[Action]:
        found: list[Action] = []
        for m in self.members.values():
            if m.has and m.leaving is None and not m.paused and m.next < len(KEYS):
                found.append(("fetch", m.name))
            found += [("deliver", m.name, offset) for offset in m.subscription.in_flight]
            if m.committing:
                found.append(("commit-ends", m.name))
                found += [("commit-vague", m.name)] * (self.budget["vague"] > 0)
            elif m.has and m.leaving is None and m.flow.due():
                found.append(("commit", m.name))
            if m.leaving is not None:
                if not m.leaving.in_flight or self.budget["hurry"]:
                    found.append(("released", m.name))
            elif m.has and self.owner == m.name and self.budget["move"]:
                found.append(("revoke", m.name))
            if m.has and self.owner == m.name and self.budget["evict"]:
                found.append(("evict", m.name))
            if m.has and self.generation != m.generation and m.leaving is None:
                found.append(("lost", m.name))
            if self.budget["crash"]:
                found.append(("crash", m.name))
        if self.owner is None:
            found += [("assign", name) for name, m in self.members.items() if not m.has]
        return found

    def apply(self, action: Action) -> None:
        what, name, *rest = action
        getattr(self, str(what).replace("-", "_"))(name, *rest)

    def fetch(self, name: str) -> None:
        m = self.members[name]
        offset, m.next = m.next, m.next + 1
        record = Record(offset, 0, KEYS[offset].encode(), b"", [])
        m.flow.fetched(NAME, [record], len(KEYS))

    def deliver(self, name: str, offset: int) -> None:
        """The subscriber has the event."""
        m = self.members[name]
        if offset not in self.delivered:
            missing = [o for o in range(offset) if KEYS[o] == KEYS[offset] and o not in self.delivered]
            if missing:
                raise Violation(f"record {offset} is delivered before record {missing[0]} with the same key")
        elif not self.spent:
            raise Violation(f"record {offset} is delivered twice, though nothing failed")
        self.delivered.append(offset)
        m.subscription.in_flight.remove(offset)
        m.flow.settle(_PARTITION << 48 | offset + 1)
        m.subscription.begin()
        m.flow.resume()

    def commit(self, name: str) -> None:
        m = self.members[name]
        m.committing, m.sent_in = m.flow.due(), m.generation

    def commit_ends(self, name: str) -> None:
        """An answer came, or that the partition is another's: then it is no error (`aio.commits`)."""
        m = self.members[name]
        offsets, m.committing = m.committing, []
        self.write(m, dict(offsets).values(), m.sent_in)
        m.flow.committed(offsets)

    def commit_vague(self, name: str) -> None:
        m = self.members[name]
        self.budget["vague"] -= 1
        self.spent = True
        offsets, m.committing = m.committing, []
        self.write(m, dict(offsets).values(), m.sent_in)

    def revoke(self, name: str) -> None:
        m = self.members[name]
        self.budget["move"] -= 1
        m.leaving = m.flow.leave([NAME])

    def released(self, name: str) -> None:
        m = self.members[name]
        assert m.leaving is not None
        if m.leaving.in_flight:
            self.budget["hurry"] -= 1
            self.spent = True
        offsets, m.leaving = m.flow.left(m.leaving), None
        self.write(
            m, dict(m.committing).values(), m.sent_in
        )  # the cluster takes them in the order in which they were sent
        self.write(m, offsets.values(), m.generation)
        m.has = m.paused = False
        if self.generation == m.generation:
            self.owner = None
            self.generation += 1

    def evict(self, name: str) -> None:
        self.budget["evict"] -= 1
        self.spent = True
        self.owner = None
        self.generation += 1

    def lost(self, name: str) -> None:
        m = self.members[name]
        m.flow.lost([NAME])
        m.has = m.paused = False

    def crash(self, name: str) -> None:
        self.budget["crash"] -= 1
        self.spent = True
        self.members[name] = Member(name, self._make)
        if self.owner == name:
            self.owner = None
            self.generation += 1

    def assign(self, name: str) -> None:
        m = self.members[name]
        self.owner, m.has, m.paused = name, True, False
        m.next, m.generation = self.committed, self.generation
        m.flow.assigned({NAME: self.committed})

    def write(self, m: Member, offsets: Iterable[int], generation: int) -> None:
        """The cluster takes a commit of the member that has the partition, and of no other."""
        if self.owner != m.name or self.generation != generation:
            return
        for offset in offsets:
            undelivered = [o for o in range(offset) if o not in self.delivered]
            if undelivered:
                raise Violation(f"offset {offset} is committed, and record {undelivered[0]} was never delivered")
            self.committed = offset

    def state(self) -> Hashable:
        members = tuple(m.state() for m in self.members.values())
        delivered = frozenset(self.delivered)
        return members, self.owner, self.generation, self.committed, delivered, tuple(self.budget.values()), self.spent

    def end(self) -> None:
        if missing := [o for o in range(len(KEYS)) if o not in self.delivered]:
            raise Violation(f"nothing can happen any more, and record {missing[0]} was never delivered")
        if self.committed != len(KEYS):
            raise Violation(f"everything is delivered, but only offset {self.committed} is committed")
