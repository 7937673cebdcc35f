"""Shows and moves the offsets of consumer groups."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway_core.contract.cli.common import CommandError

from .admin import Admin, NoTopic, milliseconds
from .client import GroupActive, KafkaFault, Partition
from .config import OffsetStart, Start, TimestampStart
from .groups import Group

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_NAMED: dict[str, Start] = {"earliest": "earliest", "latest": "latest"}


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """A group's offsets in one partition. `first` is the oldest available offset, and `end` the one that the next
    record will get. `committed` (the next to be read) is None if the group has committed nothing; `to` is the offset to
    move to."""

    topic: str
    partition: int
    first: int
    end: int
    committed: int | None
    to: int | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets from the committed one to the end, or None if nothing is committed. A committed offset
        that is no longer available counts as the first one."""
        if self.committed is None:
            return None
        return self.end - (self.committed if self.first <= self.committed <= self.end else self.first)


@dataclass(frozen=True, slots=True)
class Description:
    """The cluster's view of a group: its members, its offsets, and which of its topics are missing."""

    group: Group
    members: list[str]
    offsets: list[PartitionOffsets]
    missing: list[str]

    @property
    def lag(self) -> int:
        return sum(at.lag or 0 for at in self.offsets)


def start_of(text: str) -> Start:
    """`earliest`, `latest`, an offset or an RFC 3339 time. Raises `ValueError`."""
    if text in _NAMED:
        return _NAMED[text]
    if text.isascii() and text.isdigit() and len(text) < 19:
        return OffsetStart(offset=int(text))
    if not _TIME.fullmatch(text):
        raise ValueError(f"must be earliest, latest, an offset, or a time such as 2026-01-31T08:00:00Z, not {text!r}")
    try:
        milliseconds(text.upper())
    except KafkaFault as e:
        raise ValueError(str(e)) from e
    return TimestampStart(timestamp=text.upper())


async def look(groups: Sequence[Group]) -> list[Description]:
    """Asks the clusters for the offsets of these groups. Raises `CommandError`."""
    found = []
    for group in groups:
        async with _admin(group) as admin:
            found.append(await _described(admin, group))
    return found


async def plan(group: Group, start: Start, only: Collection[int] | None) -> Description:
    """The group's current and planned offsets, in all of its partitions or in those with the numbers `only`. Raises
    `CommandError`, even if the group has members."""
    async with _admin(group) as admin:
        found = await _described(admin, group)
        if found.missing:
            raise CommandError(f"topic {', '.join(found.missing)} does not exist")
        if found.members:
            raise CommandError(_in_use(group, found.members))
        offsets = found.offsets if only is None else [p for p in found.offsets if p.partition in only]
        if unknown := sorted(set(only or ()) - {p.partition for p in offsets}):
            raise CommandError(f"{', '.join(group.topics)} has no partition {', '.join(map(str, unknown))}")
        times = {}
        if isinstance(start, TimestampStart):
            names = [(p.topic, p.partition) for p in offsets]
            times = await admin.at_time(names, milliseconds(start.timestamp))
        return replace(found, offsets=[replace(p, to=_target(p, start, times)) for p in offsets])


async def move(group: Group, offsets: Sequence[PartitionOffsets]) -> None:
    """Commits the planned offsets. Raises `CommandError`."""
    async with _admin(group) as admin:
        await admin.commit(group.name, {(p.topic, p.partition): p.to for p in offsets if p.to is not None})


def _target(at: PartitionOffsets, start: Start, times: dict[Partition, int]) -> int:
    if isinstance(start, OffsetStart):
        return min(max(start.offset, at.first), at.end)
    if isinstance(start, TimestampStart):
        return times[at.topic, at.partition]
    return at.end if start == "latest" else at.first


async def waiting(admin: Admin, group: str, topics: Sequence[str]) -> int:
    """How many records of these topics a group has not committed. Raises `KafkaFault`."""
    return sum(at.lag or 0 for at in (await _offsets(admin, group, topics))[0])


async def _described(admin: Admin, group: Group) -> Description:
    offsets, missing = await _offsets(admin, group.name, group.topics)
    return Description(group, await admin.members(group.name), offsets, missing)


async def _offsets(admin: Admin, group: str, topics: Sequence[str]) -> tuple[list[PartitionOffsets], list[str]]:
    """The group's offsets, and the topics that are missing."""
    partitions: list[Partition] = []
    missing = []
    for topic in topics:
        try:
            partitions += await admin.partitions([topic])
        except NoTopic:
            missing.append(topic)
    # the ends last, so that offsets committed meanwhile are not after them
    committed = await admin.committed(group, partitions)
    firsts = await admin.beginnings(partitions)
    ends = await admin.ends(partitions)
    return [PartitionOffsets(*p, firsts[p], ends[p], committed[p]) for p in partitions], missing


@asynccontextmanager
async def _admin(group: Group) -> AsyncIterator[Admin]:
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
