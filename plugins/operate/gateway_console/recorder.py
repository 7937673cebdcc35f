"""What happened to the newest events, while somebody looks at the console: receptions, with where from, attempts with
their durations, dead letters. Each worker keeps its own, bounded; the first one asks the others.

Nobody looks: nothing is attached to the event's path, and what was kept is dropped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import anyio
from gateway_cloudevents import event_json
from gateway_inspect.browse import agrees
from gateway_inspect.service import InspectService
from gateway_inspect.tap.taps import Taps
from gateway_transport.witness import MessageOrigin

from gateway_core.contract.event import Event, id_of
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Observer, Outcome
from gateway_core.contract.services import GatewayView

from .origins import Origins
from .origins import told as origin_told
from .sampler import Sampler

MOST = 20_000
MOST_BYTES = 32 * 1024 * 1024
"""Of data; the data of an event counts for each entry about it."""
MOST_PER_S = 500
"""Events in a second of which everything is recorded. Of those that come later in that second only failures and dead
letters are: nobody can look at so many, and they would cost too much."""
_LATELY_NS = 10_000_000_000
LINGERS_S = 300.0
"""How long recording continues after the last look."""
SERVICE = "console"
_MOST_FOUND = 200
_MOST_WHOLE = 1024 * 1024


class Entry(NamedTuple):
    """Something that happened to an event. `where` is a broker, trigger or bridge; `seconds` is 0 if the attempt began
    before the recording did."""

    at_ns: int
    kind: str
    where: str
    event: Event
    identity: Identity | None = None
    outcome: Outcome | None = None
    seconds: float = 0.0
    origin: MessageOrigin | None = None
    size: int = 0
    """About how many bytes it keeps."""


class Asked:
    """The stream by which the first worker has another one record, as long as it is open; nothing comes in it."""

    def __init__(self) -> None:
        self.closed = False
        self._end = anyio.Event()

    async def wait(self) -> None:
        """Returns at the end."""
        await self._end.wait()

    def take(self, most: int) -> tuple[Sequence[bytes], int]:
        """Nothing."""
        return (), 0

    def close(self) -> None:
        """Ends it."""
        self.closed = True
        self._end.set()


class Recorder(Observer):
    """One worker's ring of entries, oldest first."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._now_ns = gateway.clock.now_ns
        self._entries: deque[Entry] = deque()
        self._of_id: dict[str, list[Entry]] = {}
        self._bytes = 0
        self._origins = Origins()
        self._left = MOST_PER_S
        self._second_ends_ns = 0
        self._left_out_ns = -_LATELY_NS
        self.since_ns = 0
        """When the recording began; 0 if there is none."""

    def begin(self) -> None:
        """Records from now on."""
        if not self.since_ns:
            self.since_ns = self._now_ns()
            self._taps().watch(self, self._came)

    def end(self) -> None:
        """Ends the recording and drops what it has."""
        if self.since_ns:
            self._taps().unwatch(self)
        self._entries.clear()
        self._of_id.clear()
        self._origins.clear()
        self._bytes = self.since_ns = 0

    def _taps(self) -> Taps:
        inspect = self._gateway.services["inspect"]
        assert isinstance(inspect, InspectService)
        return inspect.taps

    # -- the observer -----------------------------------------------------------------------------------------------

    def _came(self, events: Sequence[Event], origin: MessageOrigin) -> None:
        if self._has_room(self._now_ns()):
            self._origins.came(events, origin)

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        now = self._now_ns()
        if self._has_room(now):
            self._left -= len(events)
            for event in events:
                self._begun(now, "accepted", broker, event)

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        now = self._now_ns()
        if outcome.delivered and str(id_of(event)) not in self._of_id:
            if not self._has_room(now):
                return
            self._left -= 1
        self._begun(now, "attempt", trigger, event, outcome, seconds)

    def _has_room(self, now: int) -> bool:
        """Whether this second has room for an event that nothing was recorded of."""
        if now >= self._second_ends_ns:
            self._left, self._second_ends_ns = MOST_PER_S, now + 1_000_000_000
        if self._left > 0:
            return True
        self._left_out_ns = now
        return False

    def dead_lettered(self, trigger: str, event: Event) -> None:
        self._add(Entry(self._now_ns(), "dead_letter", trigger, event, size=len(event.data or b"")))

    def _begun(
        self, now: int, kind: str, where: str, event: Event, outcome: Outcome | None = None, seconds: float = 0.0
    ) -> None:
        """What may be the first that is heard of an event."""
        origin, size = self._origins.take(event)
        size += len(event.data or b"")
        self._add(Entry(now, kind, where, event, event.identity, outcome, seconds, origin, size))

    def _add(self, entry: Entry) -> None:
        entries = self._entries
        entries.append(entry)
        self._of_id.setdefault(str(id_of(entry.event)), []).append(entry)
        self._bytes += entry.size
        while len(entries) > MOST or self._bytes > MOST_BYTES:
            gone = entries.popleft()
            self._bytes -= gone.size
            own = self._of_id[name := str(id_of(gone.event))]
            del own[0]  # the oldest of all is the oldest of its id
            if not own:
                del self._of_id[name]

    # -- questions --------------------------------------------------------------------------------------------------

    @property
    def from_ns(self) -> int:
        """From when on entries are complete: the start, or the oldest entry once older ones were dropped."""
        full = len(self._entries) >= MOST or self._bytes > MOST_BYTES * 0.9
        return self._entries[0].at_ns if full and self._entries else self.since_ns

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """`of`: the entries about an event (`id`, `source`), and the event itself. `find`: the newest accepted events
        with these attributes. JSON values."""
        some = self._now_ns() - self._left_out_ns < _LATELY_NS
        found = self._of(**question["of"]) if "of" in question else self._find(**question["find"])
        return {"from_ns": self.from_ns, "worker_since_ns": self.since_ns, "some": some, **found}

    def _of(self, id: str, source: str | None) -> dict[str, Any]:
        entries = [entry for entry in self._of_id.get(id, ()) if source in (None, entry.event.attributes.get("source"))]
        whole = next((entry.event for entry in reversed(entries) if entry.kind != "dead_letter"), None)
        return {"entries": [_told(entry) for entry in entries], "event": _whole(whole)}

    def _find(self, wanted: dict[str, str], since_ns: int, until_ns: int, broker: str | None) -> dict[str, Any]:
        return {"events": list(self._matching(wanted, since_ns, until_ns, broker))}

    def _matching(self, wanted: dict[str, str], since: int, until: int, broker: str | None) -> Iterator[dict[str, Any]]:
        left, told = _MOST_FOUND, set()
        bridges = self._gateway.topology.bridges
        for at_ns, kind, where, event, *_ in reversed(self._entries):
            # a bridge accepts an event once it is delivered: what is seen of it are attempts
            if kind != "accepted" and where not in bridges:
                continue
            if broker not in (None, where) or not since <= (event.received_ns or at_ns) < until:
                continue
            if where in bridges and (where, event.position) in told:
                continue
            told.add((where, event.position))
            if not all(agrees(_attribute(event, name), value) for name, value in wanted.items()):
                continue
            yield head(where, event, at_ns)
            left -= 1
            if not left:
                return


def head(broker: str, event: Event, at_ns: int = 0) -> dict[str, Any]:
    """A row of a search's results."""
    attributes = {name: str(_attribute(event, name) or "") for name in ("id", "source", "type", "subject")}
    size = None if event.data is None else len(event.data)
    received = event.received_ns or at_ns
    return {**attributes, "broker": broker, "received_ns": received, "position": event.position, "bytes": size}


def _attribute(event: Event, name: str) -> Any:
    return id_of(event) if name == "id" else event.attributes.get(name)


def _told(entry: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {
        "at_ns": entry.at_ns,
        "kind": entry.kind,
        "where": entry.where,
        "position": entry.event.position,
        "received_ns": entry.event.received_ns,
        "source": entry.event.attributes.get("source"),
    }
    if (who := entry.identity) is not None:
        told["sender"] = {"subject": who.subject, "by": who.authenticator, "type": who.type}
    if entry.origin is not None:
        told.update(origin_told(entry.origin))
    if (outcome := entry.outcome) is not None:
        told.update(delivered=outcome.delivered, code=outcome.code, reason=outcome.reason, seconds=entry.seconds)
    return told


def _whole(event: Event | None) -> str | None:
    """The event in CloudEvents JSON; None if it can't be written so, or is too big for a question."""
    if event is None or len(event.data or b"") > _MOST_WHOLE:
        return None
    try:
        return event_json.structured(event).decode()
    except ValueError:
        return None


class Recording:
    """The recorders of all workers, as the first worker sees them."""

    def __init__(self, gateway: GatewayView, sampler: Sampler, recorder: Recorder) -> None:
        self._gateway = gateway
        self._sampler = sampler
        self._recorder = recorder
        self._until = 0.0
        self._wanted = anyio.Event()

    def look(self) -> None:
        """Somebody looks: records from now on, and for some minutes after the last page is closed."""
        self._until = time.monotonic() + LINGERS_S
        if self._gateway.worker == 0 and not self._gateway.stopping:
            self._recorder.begin()
        self._wanted.set()

    async def run(self) -> None:
        """Runs in the first worker until it is cancelled."""
        while True:
            self._wanted = anyio.Event()
            await self._wanted.wait()
            number = await self._gateway.peers.open(SERVICE, "record", lambda lines, dropped: None)
            try:
                while (left := self._until - time.monotonic()) > 0:
                    await anyio.sleep(min(left, LINGERS_S))
                    if self._sampler.watchers:
                        self._until = time.monotonic() + LINGERS_S
            finally:
                self._recorder.end()
                with anyio.CancelScope(shield=True):
                    await self._gateway.peers.close(number)

    async def ask(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        """The answers of all workers (`Recorder.answer`)."""
        others = await self._gateway.peers.ask(SERVICE, {"recorded": question})
        return [self._recorder.answer(question), *(answer for answer in others if answer)]
