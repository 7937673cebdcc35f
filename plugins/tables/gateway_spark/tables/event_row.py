"""The row of one event in a table, looked for without Spark in the files that were committed last."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .newest_rows import MOST_GROUP_BYTES, NewestRows
from .table_files import open_files

_MOST_FILES = 100
_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class EventRow(NewestRows):
    """A row, as the only one of `rows`: `files` were looked through for it. `batch` wrote it, None if that is not
    known; `table` is the table's name in its sink."""

    table: str
    batch: int | None


def event_row(location: str, format: str, table: str, id: str, source: str) -> EventRow | None:
    """The newest row of an event; None if the newest files have none. It blocks for some seconds at most. Raises
    `ValueError` with the reason if the table can't be read this way."""
    until = time.monotonic() + _WITHIN_S
    with open_files(location, format) as files:
        for count, (opened, batch) in enumerate(islice(files, _MOST_FILES), 1):
            if (row := _row(opened, {"id": id, "source": source})) is not None:
                return EventRow(opened.schema_arrow.names, [row], count, table, batch)
            if time.monotonic() > until:
                break
    return None


def _row(opened: Any, wanted: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The last row of an open Parquet file with these values, as far as it has such columns."""
    import pyarrow.compute as pc

    names = [name for name in wanted if name in opened.schema_arrow.names]
    if "id" not in names:
        raise ValueError("its rows have no `id`")
    for number in reversed(range(opened.metadata.num_row_groups)):
        group = opened.read_row_group(number, columns=names)
        same = pc.equal(group["id"], wanted["id"])
        for name in names[1:]:
            same = pc.and_(same, pc.equal(group[name], wanted[name]))
        if not (found := pc.indices_nonzero(same)):
            continue
        size = opened.metadata.row_group(number).total_byte_size
        whole = opened.read_row_group(number) if size <= MOST_GROUP_BYTES else group
        row: Mapping[str, Any] = whole.slice(found[-1].as_py(), 1).to_pylist()[0]
        return row
    return None
