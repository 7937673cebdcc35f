"""What the outside saw of a run, in order of simulated time: what was sent and answered, what arrived, what went wrong.

Nothing in it comes from inside the gateway except its log lines and its status. `at` is simulated time in seconds since
the world began (not the gateway's wall clock, which may jump). Two runs of one plan have equal histories (`digest`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .plan import Fault


@dataclass(frozen=True)
class Record:
    """Something that was seen."""

    at: float


@dataclass(frozen=True)
class Sent(Record):
    """A sender began to send `Plan.sends[send]`, for the `attempt`-th time (from 1)."""

    send: int
    attempt: int
    whole: bool
    """Whether all of its bytes were sent: False if a fault cut it, so that it can't be accepted."""


@dataclass(frozen=True)
class Answered(Record):
    """A request ended for its sender. `status` is None without a whole answer: refused, cut, silent."""

    send: int
    attempt: int
    status: int | None
    reason: str
    """The body of the answer, or why there was none."""
    firsts: tuple[int, ...] = ()
    """The positions in `Tidegate-Duplicate`."""


@dataclass(frozen=True)
class Arrived(Record):
    """A server (subscriber, bridge's sink, dead letter) has read a whole request of the gateway's, or a simulated sink
    was called. `number` counts all arrivals of the run, from 0."""

    number: int
    server: str
    connection: int
    """Counts the connections that the server accepted, from 0; -1 for a simulated sink."""
    headers: tuple[tuple[str, str], ...]
    """Names in lower case. A simulated sink has the attributes as `ce-…`, percent-decoded."""
    body: bytes
    generation: int
    """The `Started.generation` of the gateway that sent it."""

    @property
    def dead(self) -> bool:
        """Whether it is a dead letter."""
        return self.server == "dead" or self.server.startswith("dead-")


@dataclass(frozen=True)
class Published(Record):
    """A message with the event of `Plan.sends[send]` was published to a queue that the gateway reads, or has read: in
    MQTT a topic that was subscribed to before, in NATS a stream."""

    server: str
    topic: str
    id: str
    send: int


@dataclass(frozen=True)
class Replied(Record):
    """What a server did with arrival `number`: it wrote the whole answer `status` at this time (the gateway gets it
    later, or never; `how`: "retry-after" or "announced" if it asked for a pause or for the end of the connection), or
    None if it did anything else (`how`: the kind of fault)."""

    number: int
    status: int | None
    how: str = ""
    statuses: tuple[int, ...] = ()
    """What a 207 says of each event of a batch; 0 if it does not say what became of it."""


@dataclass(frozen=True)
class Heard(Record):
    """The gateway's process has read the whole answer to arrival `number` before it gave the attempt up. Without this,
    it may not know of the answer, however early the server wrote it."""

    number: int


@dataclass(frozen=True)
class Partial(Record):
    """A server got a part of a request, and then the connection ended. Such a request counts as an attempt."""

    server: str
    size: int


@dataclass(frozen=True)
class Refused(Record):
    """A server refused a connection of the gateway's, or did not answer to it."""

    server: str


@dataclass(frozen=True)
class Greeted(Record):
    """The listener showed a sender this certificate (`Fault.amount` of `tls-renew`; 0 at first), on a connection that
    began at `since`."""

    since: float
    certificate: int


@dataclass(frozen=True)
class Lingered(Record):
    """The gateway has left a connection open whose handshake began at `since`, and went no further."""

    since: float


@dataclass(frozen=True)
class Letter(Record):
    """A dead letter in the gateway's own file, as read at the end of the run: `place` is the broker's or trigger's name
    in the file; `attributes` are those of the event and of its failure; the order is that of the file."""

    place: str
    attributes: tuple[tuple[str, str], ...]
    data: bytes


@dataclass(frozen=True)
class Kept(Record):
    """An event in the log of a broker that deduplicates, as read at the end of the run; when the gateway received it,
    by the simulated time."""

    position: int
    id: str
    received_s: float


@dataclass(frozen=True)
class Happened(Record):
    """A fault of the plan began. `effect` says what came of it if that is not plain ("" otherwise; "nothing" if there
    was nothing to do, such as a crash of a gateway that is down)."""

    fault: Fault
    effect: str = ""


@dataclass(frozen=True)
class Over(Record):
    """A fault that lasts is over."""

    fault: Fault


@dataclass(frozen=True)
class SyncFailed(Record):
    """The disk failed to store what the log had written, and told the gateway."""


@dataclass(frozen=True)
class Repaired(Record):
    """After a start that failed and asked for it, an operator has run `tidegate log repair`, which said this."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Starting(Record):
    """A gateway begins its start with `Plan.configs[config]`. It may deliver before the start is complete."""

    generation: int
    config: int


@dataclass(frozen=True)
class Started(Record):
    """A gateway accepts events: the `generation`-th start (from 1), with `Plan.configs[config]`."""

    generation: int
    config: int


@dataclass(frozen=True)
class StartFailed(Record):
    """A start failed; the world starts it again after a second."""

    generation: int
    error: str


@dataclass(frozen=True)
class Ended(Record):
    """A gateway ended. `how`: stop (drained), crash, power."""

    generation: int
    how: str


@dataclass(frozen=True)
class Reloaded(Record):
    """The gateway runs `Plan.configs[config]` now, completely; `faults` is empty. Or it said that it can't, and why."""

    config: int
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paused(Record):
    """These triggers, and no others, are paused from now on."""

    triggers: tuple[str, ...]


@dataclass(frozen=True)
class ReplayBegan(Record):
    """The gateway runs the replay of this number in the plan, under this id."""

    number: int
    id: str


@dataclass(frozen=True)
class Rewound(Record):
    """The gateway has answered that it has done the rewind of this number in the plan, for which it was asked at
    `asked`. It may have done it before, and ended then; `first` is when it was asked first."""

    number: int
    asked: float
    first: float


@dataclass(frozen=True)
class Operated(Record):
    """The gateway has done `Plan.operations[number]`, to so many events that wait."""

    number: int
    count: int


@dataclass(frozen=True)
class Waits(Record):
    """At the end of the run, the gateway lists this event as waiting for this trigger."""

    trigger: str
    id: str


@dataclass(frozen=True)
class Stored(Record):
    """At the end of the run, the log has an event of a schedule with this id so often."""

    id: str
    count: int


@dataclass(frozen=True)
class Logged(Record):
    """A line of the gateway's log; `level` as in `logging`. `error` is the traceback, if it has one."""

    level: str
    logger: str
    text: str
    error: str = ""


@dataclass(frozen=True)
class Status(Record):
    """The gateway's status document, as a client gets it, at the end of the run or before an orderly stop."""

    generation: int
    document: dict[str, Any]


@dataclass(frozen=True)
class Quiet(Record):
    """The end of the run. `quiet`: the gateway came to rest: no event held, no lag, no attempt under way."""

    quiet: bool
    why: str = ""
    """What it still had to do."""


@dataclass(frozen=True)
class Broken(Record):
    """The simulation itself saw something that must never be: an exception that reached the event loop, a loop that
    spins without time passing, a task that never ended."""

    what: str


@dataclass(frozen=True)
class Produced(Record):
    """The simulated Kafka cluster has stored a record of `Plan.sends[send]`, or of a gateway (`send` is -1): in the
    `epoch`-th topic of this name (from 1), which counts how often it was created."""

    topic: str
    epoch: int
    partition: int
    offset: int
    id: str
    """That of the event; `PARTITION:OFFSET` for a record that is none."""
    send: int
    generation: int
    timestamp_ms: int


@dataclass(frozen=True)
class Committed(Record):
    """A consumer group has committed an offset. `by`: gateway, other (its imaginary member), admin (a start offset)."""

    group: str
    topic: str
    epoch: int
    partition: int
    offset: int
    by: str


@dataclass(frozen=True)
class Taken(Record):
    """The imaginary member of a group has processed the records from one offset to before another one."""

    group: str
    topic: str
    epoch: int
    partition: int
    begin: int
    end: int


@dataclass(frozen=True)
class Recreated(Record):
    """A topic was deleted with all that was in it, and created again."""

    topic: str
    epoch: int


R = TypeVar("R", bound=Record)


@dataclass
class History:
    """All records of a run."""

    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Notes a record; time never goes backwards."""
        self.records.append(record)

    def of(self, kind: type[R]) -> Iterator[R]:
        """The records of one kind."""
        return (record for record in self.records if isinstance(record, kind))

    @property
    def digest(self) -> str:
        """A fingerprint of everything in it."""
        return hashlib.sha256("\n".join(map(repr, self.records)).encode()).hexdigest()
