"""What the plugin offers: the command `tidegate conformance`."""

from __future__ import annotations

from typing import Any

from gateway_core.component import Command
from gateway_core.hookspecs import hookimpl


def _load() -> Any:
    from .command import app

    return app


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("conformance", "Check any broker against the CloudEvents and Knative contracts.", _load)]
