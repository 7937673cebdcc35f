"""A replay: what it sends, and how far it is; and its file, so that it goes on after a crash or a restart."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gateway_core.contract.moments import written
from gateway_core.contract.one_line import one_line
from gateway_core.contract.private_files import durable_folder, replace_file

log = logging.getLogger("tidegate.replay")

MOST_FAULTS = 20
MOST_TYPES = 50
MOST_KEPT = 50
"""How many ended replays are remembered."""
ENDED = ("done", "cancelled", "failed")


class Counts(msgspec.Struct):
    """The events that a replay selects: how many, when the first and the last were accepted (Unix time), how many of
    each type. Types beyond the first fifty are counted as `…`."""

    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    types: dict[str, int] = {}

    def add(self, received_ns: int, type_: str) -> None:
        """Counts one more."""
        self.first_ns = min(self.first_ns, received_ns) if self.count else received_ns
        self.last_ns = max(self.last_ns, received_ns)
        self.count += 1
        name = one_line(type_, 200) if type_ in self.types or len(self.types) < MOST_TYPES else "…"
        self.types[name] = self.types.get(name, 0) + 1

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "count": self.count,
            "first": written(self.first_ns) if self.count else None,
            "last": written(self.last_ns) if self.count else None,
            "types": dict(sorted(self.types.items(), key=lambda item: (-item[1], item[0]))),
        }


class Wanted(msgspec.Struct, frozen=True):
    """What somebody asked for: the events of `trigger` that were accepted from `from_ns` to before `to_ns` (Unix time)
    and match all `filters`, at most `rate` in a second (0: no limit). `order` is "key" or "" (the trigger's own).
    `mark`: each event gets the attribute `tidegatereplay`. `to_sink` is a URL that gets them in the trigger's place."""

    trigger: str
    from_ns: int
    to_ns: int
    filters: tuple[str, ...] = ()
    rate: float = 0
    order: str = ""
    mark: bool = False
    to_sink: str = ""


class Job(msgspec.Struct):
    """A replay. `parts` has the positions to look at, by partition: from the first number to before the last, fixed at
    the start. `next` is the first number that may be unsettled, `beyond` those after it that are settled.

    `state`: "counting", "running", "paused", "done" (the counts say what went to the dead letter), "cancelled" or
    "failed". `detail` says why, or what it waits for."""

    id: str
    who: str
    where: str
    broker: str
    wanted: Wanted
    parts: dict[int, tuple[int, int]]
    started_ns: int
    state: str = "counting"
    detail: str = ""
    counts: Counts = msgspec.field(default_factory=Counts)
    next: dict[int, int] = {}
    beyond: dict[int, list[int]] = {}
    delivered: int = 0
    given_up: int = 0
    unwanted: int = 0
    gone: int = 0
    running_s: float = 0.0
    ended_ns: int = 0
    faults: list[tuple[str, str]] = []

    @property
    def ended(self) -> bool:
        """Whether it will do nothing more."""
        return self.state in ENDED

    @property
    def handled(self) -> int:
        """How many of the counted events it is done with."""
        return self.delivered + self.given_up + self.unwanted + self.gone

    def fault(self, id_: str, reason: str) -> None:
        """Notes an event that could not be delivered; the first few are kept."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append((one_line(id_, 200), one_line(reason, 300)))


def firsts_of(job: Job) -> dict[int, int]:
    """The first number that it still needs, by partition."""
    return {partition: job.next.get(partition, first) for partition, (first, _) in job.parts.items()}


def document(job: Job) -> dict[str, Any]:
    """A replay as JSON values."""
    wanted = job.wanted
    rate = job.handled / job.running_s if job.running_s else 0.0
    left = max(0, job.counts.count - job.handled)
    return {
        "id": job.id,
        "state": job.state,
        "detail": job.detail,
        "who": job.who,
        "trigger": wanted.trigger,
        "broker": job.broker,
        "from": written(wanted.from_ns),
        "to": written(wanted.to_ns),
        "filters": list(wanted.filters),
        "rate": wanted.rate,
        "order": wanted.order,
        "mark": wanted.mark,
        "to_sink": wanted.to_sink,
        **job.counts.document(),
        "delivered": job.delivered,
        "given_up": job.given_up,
        "unwanted": job.unwanted,
        "gone": job.gone,
        "left": left,
        "per_second": round(rate, 1),
        "seconds_left": round(left / rate) if rate and job.state == "running" else None,
        "started": written(job.started_ns),
        "ended": written(job.ended_ns) if job.ended_ns else None,
        "faults": [{"id": id_, "reason": reason} for id_, reason in job.faults],
    }


_decoded = msgspec.json.Decoder(Job).decode


class JobFiles:
    """One file for each replay, in `DATA_DIR/replay/`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, content: bytes, id_: str) -> None:
        """Durable when this returns. Raises `OSError`."""
        durable_folder(self._folder)
        replace_file(self._folder / f"{id_}.json", content)

    def load(self) -> Iterator[Job]:
        """All, oldest first."""
        found = []
        for path in self._folder.glob("*.json"):
            try:
                found.append(_decoded(path.read_bytes()))
            except (OSError, msgspec.MsgspecError) as e:
                log.error("the replay in %s can't be read, and does not go on: %s", path, one_line(e))
        yield from sorted(found, key=lambda job: job.started_ns)

    def forget(self, id_: str) -> None:
        """Removes one."""
        with suppress(OSError):
            (self._folder / f"{id_}.json").unlink(missing_ok=True)
