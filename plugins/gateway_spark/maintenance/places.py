"""Which tables there are to be cared for: those of a trigger, or one that a user names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..config import SparkSinkConfig
from ..data.known import KnownFile
from ..naming import OTHER, TYPE, UNKNOWN, quarantine_of
from ..tables.owner import place_of
from . import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gateway_core.config.model import GatewayConfig


def sink_of(config: GatewayConfig, name: str) -> SparkSinkConfig:
    """The options of a trigger's Spark sink. Raises `StartError` where there is none."""
    from gateway_core.errors import StartError

    if name not in config.triggers:
        raise StartError(f"there is no trigger {name!r}; there are: {', '.join(config.triggers) or 'none'}")
    sink = config.triggers[name].subscriber
    if not isinstance(sink.options, SparkSinkConfig):
        raise StartError(f"triggers.{name}: its subscriber is {sink.name}, not spark")
    return sink.options


def places(spark: SparkSession, sink: SparkSinkConfig, data_dir: Path, name: str) -> list[Place]:
    """The tables of a trigger, with their quarantine tables, whether or not they are there yet."""
    table = place_of(sink.path, sink.format, sink.conf)
    checkpoint = place_of(sink.checkpoint or str(data_dir / "spark" / name / "checkpoint"))
    quarantine = place_of(sink.quarantine, sink.format, sink.conf) if sink.quarantine else ""
    names = [""]
    if TYPE in table:
        names = [*sorted(KnownFile(spark, checkpoint).load().tables.values()), OTHER, UNKNOWN]
    made = []
    for each in names:
        if each not in (OTHER, UNKNOWN):
            made.append(Place(table.replace(TYPE, each), sink.format, checkpoint, sink.cluster_by))
        made.append(Place(quarantine_of(table, quarantine, each), sink.format, checkpoint))
    return made
