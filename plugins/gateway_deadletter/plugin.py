"""What the plugin offers."""

from __future__ import annotations

from gateway_core.component import BuildContext, Component
from gateway_core.hookspecs import hookimpl

from .config import DeadLetterConfig
from .sink import DeadLetterSink
from .store import Store


def build(config: DeadLetterConfig, context: BuildContext) -> DeadLetterSink:
    """The sink of this worker; every worker writes a file of its own and reads those of all."""
    path = config.path or context.data_dir / "dead-letter" / f"{context.broker or 'default'}.jsonl"
    return DeadLetterSink(Store(path), context, fsync=config.fsync)


@hookimpl
def gateway_dead_letters() -> list[Component]:
    return [
        Component(
            "deadletter",
            "Keeps undeliverable events in a file, one JSON line each, to be looked at and replayed (`tidegate dlq`).",
            DeadLetterConfig,
            build,
        )
    ]
