"""`tidegate run`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..contract.cli import common

if TYPE_CHECKING:
    from rich.text import Text

    from ..contract.runners import Started
    from ..contract.status import GatewayStatus

log = logging.getLogger("tidegate")


def run_gateway(paths: Sequence[Path] | None, flags: dict[str, Any]) -> int:
    """Runs until a signal; returns the exit code. Raises `ConfigError` and `StartError`."""
    settings = common.settings(**flags)
    files = common.config_paths(paths)
    from ..runtime.log_output import configure

    configure(settings)
    _warn_of_misspelt_settings()
    from ..runtime.run import run

    return run(files, settings, on_started=_announce)


def _warn_of_misspelt_settings() -> None:
    """Only near misses: other programs may set `TIDEGATE_*` variables (Kubernetes does for a service of that name)."""
    from difflib import get_close_matches

    from ..contract.settings import Settings

    known = [f"TIDEGATE_{name.upper()}" for name in Settings.model_fields] + ["TIDEGATE_CONFIG"]
    for name in sorted(os.environ):
        if name.startswith("TIDEGATE_") and name not in known and (near := get_close_matches(name, known, 1, 0.9)):
            log.warning("%s is not a setting and has no effect: did you mean %s?", name, near[0])


def _announce(started: Started) -> None:
    """Says where to send events and where to look: as text on a terminal, else as a log line."""
    if not sys.stderr.isatty():
        log.info("ready", extra={"ingress": started.ingress, **started.addresses})
        return
    from rich.console import Console

    text = banner(started.status, started.ingress, started.addresses)
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


def banner(status: GatewayStatus, ingress: dict[str, list[str]], services: Mapping[str, str]) -> Text:
    """A few lines with the addresses for events and services."""
    from rich.text import Text

    text = Text()
    text.append("tidegate", "bold").append(f" {status.version}  data in {status.data_dir}\n")
    for name, addresses in ingress.items():
        text.append(f"  {name}", "cyan").append(f" accepts events at {', '.join(addresses) or 'no address'}\n")
    for trigger in status.triggers:
        text.append(f"  {trigger.name}", "cyan").append(f" -> {trigger.subscriber or trigger.reason}\n")
    for bridge in status.bridges:
        text.append(f"  {bridge.name}", "cyan").append(f" -> {bridge.sink}\n")
    for name, address in services.items():
        text.append(f"  {name} at {address}\n")
    return text.append("  Ctrl-C stops it")
