"""The plugin's hook: the command `tidegate conformance`."""

from __future__ import annotations

from typing import Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl


def _load() -> Any:
    from .command import app

    return app


@hookimpl
def gateway_commands() -> list[Command]:
    summary = "Check any broker against the CloudEvents and Knative contracts."
    return [Command("conformance", summary, _load, panel="Try out")]
