"""The plugin's hooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Component, Transport
from gateway_core.contract.durable import DurableName, DurableNames, Noted, sources
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.config_model import GatewayConfig

    from .config import ScheduleConfig


def _config() -> type[BaseModel]:
    from .config import ScheduleConfig

    return ScheduleConfig


def _source(options: ScheduleConfig, context: BuildContext) -> Any:
    from .source import ScheduleSource

    return ScheduleSource(options, context)


@hookimpl
def gateway_transports() -> list[Transport]:
    from . import guarantees

    return [
        Transport(
            "schedule",
            source=Component(
                "schedule",
                "Makes an event at each planned time (cron, or a period).",
                _config,
                _source,
                extra="schedule",
                requires=("cronsim",),
                guarantees=guarantees.SOURCE,
                metrics=guarantees.METRICS,
            ),
        )
    ]


def _names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    for use in sources(config, "schedule"):
        options: Any = use.ref.options
        yield DurableName(
            transport="schedule",
            what="schedule",
            where="the data directory",
            name=options.name,
            owner=use.owner,
            place=use.place,
            alone=True,
        )


def _remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    from .state import file_of

    file_of(data_dir, name.name).unlink(missing_ok=True)


def _waits(name: DurableName, config: GatewayConfig, data_dir: Path) -> bool:
    return False  # only the time of the last run is kept


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    return [DurableNames(transport="schedule", names=_names, remove=_remove, waits=_waits)]
