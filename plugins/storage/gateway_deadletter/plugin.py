"""The plugin's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Command, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.config_extension import ConfigFinding
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.durable import DurableNames
    from gateway_core.contract.services import GatewayView, RunningService, Service

    from .config import DeadLetterConfig
    from .sink import DeadLetterSink


def build(config: DeadLetterConfig, context: BuildContext) -> DeadLetterSink:
    """The sink of this worker. Each worker writes its own file and reads those of all. Raises `StartError` if there can
    be no such file."""
    from gateway_file.places import refuse_place

    from .durable import default_path
    from .encryption import Keys, parse_key
    from .sink import DeadLetterSink
    from .store import Store

    encrypt = config.encrypt
    keys = Keys(map(parse_key, encrypt.keys)) if encrypt is not None else None
    path = config.path or default_path(context.data_dir, context.broker)
    store = Store(path, keys, also_plain=encrypt is None or encrypt.also_plain)
    refuse_place(store.file_of(context.worker, context.workers), context)
    return DeadLetterSink(store, context, fsync=config.fsync)


@hookimpl
def gateway_dead_letters() -> list[Component]:
    from . import guarantees
    from .config import DeadLetterConfig

    return [
        Component(
            "deadletter",
            "Keeps undeliverable events in a file, one JSON line each, to view and replay (`tidegate dlq`).",
            DeadLetterConfig,
            build,
            guarantees=guarantees.SINK,
        )
    ]


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    from .config_check import unreadable_dead_letters

    return [unreadable_dead_letters]


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    from gateway_core.contract.durable import DurableNames

    from . import durable as d

    return [
        DurableNames(
            d.TRANSPORT,
            d.names,
            d.remove,
            earlier=d.earlier,
            waits=d.waits,
            rescue=d.rescue,
            only_by_name=True,
        )
    ]


def _dlq() -> Any:
    from .cli.app import dlq

    return dlq


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("dlq", "Show dead letters and replay them.", _dlq, panel="Look after data")]


def _build_service(gateway: GatewayView) -> RunningService:
    from .service import DeadLetterService

    return DeadLetterService(gateway)


@hookimpl
def gateway_services() -> list[Service]:
    from gateway_core.contract.services import Service

    return [Service("deadletter", "Lists dead letters, and shows one in full.", _build_service)]
