"""The sink `spark`, and the command `spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Command, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.durable import DurableNames

    from .config import SparkSinkConfig


def _build(config: SparkSinkConfig, context: BuildContext) -> Any:
    from .sink import build

    return build(config, context)


def _commands() -> Any:
    from .commands import app

    return app


def _config() -> type[BaseModel]:
    from .config import SparkSinkConfig

    return SparkSinkConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from . import guarantees

    sink = Component(
        "spark",
        "Streams events into a Spark table, exactly once.",
        _config,
        _build,
        extra="spark",
        requires=("pyspark", "pyarrow"),
        guarantees=guarantees.SINK,
    )
    return [Transport("spark", sink=sink)]


@hookimpl
def gateway_commands() -> list[Command]:
    return [
        Command("spark", "Maintain Spark tables: tables, compact, retain, rejoin.", _commands, panel="Look after data")
    ]


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    from gateway_core.contract.durable import DurableNames

    from . import durable

    return [DurableNames("spark", durable.names, durable.remove)]
