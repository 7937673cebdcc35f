"""What was acknowledged to the sender, what arrived, what is in the dead letter: nothing may be missing."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.adapter import Arrived, attributes_of, key_of
from tests.ledger import body_of

# the gateway may add these (CloudEvents extension "Distributed Tracing")
_TRACE = {"traceparent", "tracestate"}


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run of a scenario counted."""

    acknowledged: int
    delivered: int
    dead_lettered: int
    duplicates: int
    out_of_order: int
    lost: int
    faults: int
    seconds: float

    def row(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


class FaultLedger:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged: set[int] = set()
        self.arrived: dict[int, int] = {}
        """How many times each event arrived."""
        self.wrong: list[str] = []
        """Events with other bytes or attributes than were sent."""
        self.out_of_order: list[str] = []
        """First arrivals behind a later event of their key."""
        self._last: dict[str, int] = {}

    def acknowledge(self, number: int) -> None:
        """The server has acknowledged the event to its sender."""
        with self._lock:
            self.acknowledged.add(number)

    def arrive(self, event: Arrived) -> None:
        """An event at the remote side."""
        try:
            number = int(event.attributes["id"])
        except (KeyError, ValueError):
            with self._lock:
                self.wrong.append(f"no number: {dict(event.attributes)}")
            return
        attributes = {name: value for name, value in event.attributes.items() if name not in _TRACE}
        with self._lock:
            if attributes != attributes_of(number):
                self.wrong.append(f"{number}: {attributes}")
            elif event.body != body_of(number):
                self.wrong.append(f"{number}: {len(event.body)} other bytes")
            count = self.arrived.get(number, 0)
            self.arrived[number] = count + 1
            if not count:
                key = key_of(number)
                if number < self._last.get(key, 0):
                    self.out_of_order.append(f"{number} after {self._last[key]}")
                self._last[key] = max(number, self._last.get(key, 0))

    def open(self, letters: Mapping[int, object] | None = None) -> set[int]:
        """Acknowledged events that have neither arrived nor are in the dead letter."""
        with self._lock:
            return self.acknowledged - self.arrived.keys() - set(letters or ())

    def figures(self, letters: int, faults: int, seconds: float) -> Figures:
        """The counts."""
        with self._lock:
            return Figures(
                acknowledged=len(self.acknowledged),
                delivered=len(self.arrived),
                dead_lettered=letters,
                duplicates=sum(self.arrived.values()) - len(self.arrived),
                out_of_order=len(self.out_of_order),
                lost=0,
                faults=faults,
                seconds=round(seconds, 1),
            )


def letters(folder: Path) -> tuple[dict[int, bytes], int]:
    """The numbered events in the dead letter, and how many letters have no number."""
    numbered: dict[int, bytes] = {}
    others = 0
    for file in folder.glob("*.jsonl"):
        for line in file.read_bytes().splitlines():
            event = json.loads(line)["event"]
            if event.get("source") == "/faults" and str(event["id"]).isdigit():
                numbered[int(event["id"])] = line
            else:
                others += 1
    return numbered, others
