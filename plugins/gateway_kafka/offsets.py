"""Where consumer groups are, and moving them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway_core.cli.common import CommandError

from .admin import Admin, GroupActive, NoTopic, milliseconds
from .client import KafkaFault, Partition
from .config import OffsetStart, Start, TimestampStart
from .groups import Group

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_NAMED: dict[str, Start] = {"earliest": "earliest", "latest": "latest"}


@dataclass(frozen=True, slots=True)
class Place:
    """A group's place in one partition. `first` is the oldest offset that is still there, `end` the one that the next
    record will get; `committed` (the next to be read) is None where the group has no place yet; `to` is where it is to
    go."""

    topic: str
    partition: int
    first: int
    end: int
    committed: int | None
    to: int | None = None

    @property
    def lag(self) -> int | None:
        """Offsets from the place to the end; None where there is no place. A place that is no longer there means the
        first."""
        if self.committed is None:
            return None
        return self.end - (self.committed if self.first <= self.committed <= self.end else self.first)


@dataclass(frozen=True, slots=True)
class Description:
    """What the cluster says of a group: its members, its places, and which of its topics are not there."""

    group: Group
    members: list[str]
    places: list[Place]
    missing: list[str]

    @property
    def lag(self) -> int:
        return sum(place.lag or 0 for place in self.places)


def start_of(text: str) -> Start:
    """`earliest`, `latest`, an offset or an RFC 3339 time. Raises `ValueError`."""
    if text in _NAMED:
        return _NAMED[text]
    if text.isascii() and text.isdigit() and len(text) < 19:
        return OffsetStart(offset=int(text))
    if not _TIME.fullmatch(text):
        raise ValueError(f"write earliest, latest, an offset, or a time as 2026-01-31T08:00:00Z, not {text!r}")
    try:
        milliseconds(text.upper())
    except KafkaFault as e:
        raise ValueError(str(e)) from e
    return TimestampStart(timestamp=text.upper())


async def look(groups: Sequence[Group]) -> list[Description]:
    """Asks the clusters where these groups are. Raises `CommandError`."""
    found = []
    for group in groups:
        async with _asking(group) as admin:
            found.append(await _described(admin, group))
    return found


async def plan(group: Group, start: Start, only: Collection[int] | None) -> Description:
    """Where the group is and where it would go, in all of its partitions or those with the numbers `only`. Raises
    `CommandError`, also where the group has members."""
    async with _asking(group) as admin:
        found = await _described(admin, group)
        if found.missing:
            raise CommandError(f"there is no topic {', '.join(found.missing)}")
        if found.members:
            raise CommandError(_in_use(group, found.members))
        places = found.places if only is None else [p for p in found.places if p.partition in only]
        if unknown := sorted(set(only or ()) - {p.partition for p in places}):
            raise CommandError(f"{', '.join(group.topics)} has no partition {', '.join(map(str, unknown))}")
        times = {}
        if isinstance(start, TimestampStart):
            names = [(p.topic, p.partition) for p in places]
            times = await admin.at_time(names, milliseconds(start.timestamp))
        return replace(found, places=[replace(p, to=_target(p, start, times)) for p in places])


async def move(group: Group, places: Sequence[Place]) -> None:
    """Commits what was planned. Raises `CommandError`."""
    async with _asking(group) as admin:
        await admin.commit(group.name, {(p.topic, p.partition): p.to for p in places if p.to is not None})


def _target(place: Place, start: Start, times: dict[Partition, int]) -> int:
    if isinstance(start, OffsetStart):
        return min(max(start.offset, place.first), place.end)
    if isinstance(start, TimestampStart):
        return times[place.topic, place.partition]
    return place.end if start == "latest" else place.first


async def _described(admin: Admin, group: Group) -> Description:
    partitions: list[Partition] = []
    missing = []
    for topic in group.topics:
        try:
            partitions += await admin.partitions([topic])
        except NoTopic:
            missing.append(topic)
    # the ends last: what is committed meanwhile is not beyond them
    committed = await admin.committed(group.name, partitions)
    firsts = await admin.beginnings(partitions)
    ends = await admin.ends(partitions)
    places = [Place(*p, firsts[p], ends[p], committed[p]) for p in partitions]
    return Description(group, await admin.members(group.name), places, missing)


@asynccontextmanager
async def _asking(group: Group) -> AsyncIterator[Admin]:
    try:
        async with Admin(group.options) as admin:
            yield admin
    except GroupActive as e:
        raise CommandError(_in_use(group, [])) from e
    except KafkaFault as e:
        text = str(e) if group.cluster in str(e) else f"Kafka at {group.cluster}: {e}"
        raise CommandError(f"group {group.name}: {text}") from e


def _in_use(group: Group, members: Sequence[str]) -> str:
    who = f" ({', '.join(dict.fromkeys(members))})" if members else ""
    count = f"{len(members)} member{'s' * (len(members) > 1)}" if members else "members"
    return f"the group {group.name} has {count}{who}: stop the gateways of that group first"
