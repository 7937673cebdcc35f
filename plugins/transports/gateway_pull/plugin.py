"""The plugin's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Command, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .config import PullSinkConfig


def _sink(options: PullSinkConfig, context: BuildContext) -> Any:
    from .sink import PullSink

    return PullSink(options, context)


def _config() -> type[BaseModel]:
    from .config import PullSinkConfig

    return PullSinkConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from .guarantees import SINK

    summary = "Keeps events for subscribers that fetch them over HTTP, each with a lease, or as server-sent events."
    return [Transport("pull", sink=Component("pull", summary, _config, _sink, guarantees=SINK))]


def _listen() -> Any:
    from .cli import listen

    return listen


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("listen", "Fetch events and pass them on to a server on this machine.", _listen, panel="Try out")]
