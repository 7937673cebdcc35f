"""The number that a batch gets in a Parquet table, whose metadata has no gaps. It decides that each batch is there
once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import SparkFault


def of_query(batch: int, last: int, location: str, checkpoint: str) -> int | None:
    """In the query's own table, which gets all its batches: the batch's number, or None if the table already has it.
    `last` is the last number in the table's metadata, -1 if there is none. Raises `SparkFault` if one is missing."""
    if batch > last + 1:
        raise gap(last + 1, batch, location, checkpoint)
    return batch if batch > last else None


def gap(missing: int, batch: int, location: str, checkpoint: str) -> SparkFault:
    """The fault of a table that lacks a batch."""
    return SparkFault(
        f"the table {location} has no batch {missing}, but the next is {batch}: it does not "
        f"belong to the checkpoint {checkpoint}; restore the table that does, or delete the "
        "checkpoint"
    )


def of_table(batch: int, last: int, query: str, noted: Mapping[str, Any] | None) -> int | None:
    """In a table that gets only some batches: the next number, or None if the table already has the batch. `noted` is
    what was saved before the last write began: its query, batch and number. The caller saves the same before it writes
    this batch."""
    noted = noted or {}
    if noted.get("query") == query and batch <= noted["batch"] and noted["number"] <= last:
        return None
    return last + 1
