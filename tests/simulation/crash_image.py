"""What a file may hold after a power cut: what was synced, and any part of what was written since.

A disk writes sectors of 512 bytes whole or not at all, in any order. What SQLite assumes beyond that is assumed here,
too: a write changes no byte outside of its range (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal, NamedTuple

SECTOR = 512
Survival = Literal["none", "all", "prefix", "subset", "sectors"]
"""Which unsynced writes survive: none; all; the first ones, the last of these torn; any of them; any of their
sectors."""
SURVIVALS: tuple[Survival, ...] = ("none", "all", "prefix", "subset", "sectors")


class Change(NamedTuple):
    """A write, or a truncation to `offset` if `data` is None."""

    offset: int
    data: bytes | None


def apply(content: bytearray, changes: Sequence[Change]) -> None:
    """Makes the changes one after the other; what is skipped is filled with zeros."""
    for offset, data in changes:
        size = len(content)
        if data is None:
            if offset < size:
                del content[offset:]
            else:
                content.extend(bytes(offset - size))
            continue
        if offset > size:
            content.extend(bytes(offset - size))
        content[offset : offset + len(data)] = data


def survivors(changes: Sequence[Change], how: Survival, random: Random) -> list[Change]:
    """The changes that are on the disk after a power cut."""
    if how == "none" or not changes:
        return []
    if how == "all":
        return list(changes)
    if how == "prefix":
        whole = random.randrange(len(changes) + 1)
        found = list(changes[:whole])
        if whole < len(changes) and (data := changes[whole].data) is not None:
            pieces = list(_sectors(Change(changes[whole].offset, data)))
            found += pieces[: random.randrange(len(pieces) + 1)]
        return found
    share = random.random()
    pieces = list(changes) if how == "subset" else [piece for change in changes for piece in _sectors(change)]
    return [piece for piece in pieces if random.random() < share]


def _sectors(change: Change) -> Iterator[Change]:
    if change.data is None:
        yield change
        return
    at, end = change.offset, change.offset + len(change.data)
    while at < end:
        following = min(end, at // SECTOR * SECTOR + SECTOR)
        yield Change(at, change.data[at - change.offset : following - change.offset])
        at = following


def difference(before: bytes | bytearray, after: bytes) -> list[Change]:
    """Changes that make the second content of the first."""
    common = min(len(before), len(after))
    changes = [] if len(before) <= len(after) else [Change(len(after), None)]
    if before[:common] != after[:common]:
        for at in range(0, common, SECTOR):
            end = min(at + SECTOR, common)
            if before[at:end] != after[at:end]:
                changes.append(Change(at, after[at:end]))
    if len(after) > common:
        changes.append(Change(common, after[common:]))
    return changes
