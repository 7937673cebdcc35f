"""The tables of a trigger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..config import SparkSinkConfig
from ..data.schema_state import SchemaStateFile
from ..naming import OTHER, TYPE, UNKNOWN, quarantine_of
from ..tables.owner import location_of
from .model import TableRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gateway_core.contract.config_model import GatewayConfig


def sink_of(config: GatewayConfig, name: str) -> SparkSinkConfig:
    """The options of a trigger's Spark sink. Raises `StartError` if it has none."""
    from gateway_core.contract.errors import StartError

    if name not in config.triggers:
        raise StartError(f"there is no trigger {name!r}; there are: {', '.join(config.triggers) or 'none'}")
    sink = config.triggers[name].subscriber
    if not isinstance(sink.options, SparkSinkConfig):
        raise StartError(f"triggers.{name}: its subscriber is {sink.name}, not spark")
    return sink.options


def trigger_tables(spark: SparkSession, sink: SparkSinkConfig, data_dir: Path, name: str) -> list[TableRef]:
    """The tables of a trigger and their quarantine tables, whether or not they exist yet."""
    table = location_of(sink.path, sink.format, sink.conf)
    checkpoint = location_of(sink.checkpoint or str(data_dir / "spark" / name / "checkpoint"))
    quarantine = location_of(sink.quarantine, sink.format, sink.conf) if sink.quarantine else ""
    names = [""]
    if TYPE in table:
        names = [*sorted(SchemaStateFile(spark, checkpoint).load().tables.values()), OTHER, UNKNOWN]
    made = []
    for each in names:
        if each not in (OTHER, UNKNOWN):
            made.append(TableRef(table.replace(TYPE, each), sink.format, checkpoint, sink.cluster_by))
        made.append(TableRef(quarantine_of(table, quarantine, each), sink.format, checkpoint))
    return made
