"""What a table itself records of who fills it, and how far: the owner, and for each batch the positions of the channel
that it covers. A query with a new checkpoint can continue from that, and has each event once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import SparkFault

Positions = Mapping[str, int]
"""Shard or partition -> the next position to read."""
MOST_BEFORE = 20


@dataclass(frozen=True)
class Owner:
    """The query that fills a table. `query` is the id in its checkpoint, `channel` what it reads, `before` the queries
    whose tables it took over (the last one first), `epochs` those of the log (`gateway_log.epochs`), `type` the event
    type of a table per type."""

    query: str
    trigger: str = ""
    channel: str = ""
    checkpoint: str = ""
    type: str = ""
    before: tuple[str, ...] = ()
    epochs: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        query = f"the query {self.query}" if self.query else "a new query"
        return f"{query} of trigger {self.trigger} (from {self.channel}, checkpoint {self.checkpoint})"

    def text(self) -> str:
        """As JSON, in ASCII."""
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    @property
    def chain(self) -> tuple[str, ...]:
        """The query, and those before it."""
        return (self.query, *self.before)

    def check(self, found: Owner | None, location: str) -> None:
        """Raises `SparkFault` if a table belongs to another query than this one and those before it."""
        if found is not None and found.query not in self.chain:
            raise belongs(location, found, self)


def owner_of(value: str | Mapping[str, Any] | None) -> Owner | None:
    """The owner in what `Owner.text` wrote, None if there is none."""
    if not value:
        return None
    found = json.loads(value) if isinstance(value, str) else dict(value)
    known = {f.name for f in fields(Owner)}
    found = {name: part for name, part in found.items() if name in known}
    return Owner(**{**found, "before": tuple(found.get("before", ()))})


def belongs(location: str, owner: Owner, query: Owner) -> SparkFault:
    """The fault of a table that belongs to another query."""
    return SparkFault(
        f"the table {location} belongs to {owner}, and this is {query}: set `adopt: true` to continue the table where "
        "it ends, or choose another path"
    )


@dataclass(frozen=True)
class Mark:
    """What a batch records: the positions that it begins at and ends before, and the owner; None for a table that has
    none (a quarantine table, which may have the rows of several)."""

    first: Positions
    end: Positions
    owner: Owner | None = None


Extent = tuple[dict[str, int], dict[str, int]]
"""The positions that a query's last batch in a table begins at, and ends before."""


def highest(each: Iterable[Positions]) -> dict[str, int]:
    """The highest position of each shard or partition."""
    found: dict[str, int] = {}
    for positions in each:
        for shard, position in positions.items():
            found[shard] = max(position, found.get(shard, position))
    return found
