"""Warns of dead letters that nothing here can read."""

from __future__ import annotations

from collections.abc import Iterable

from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import GatewayConfig

READABLE = ("deadletter", "file", "stdout")
"""Those that `tidegate dlq` reads, and the one that a person sees."""


def unreadable_dead_letters(config: GatewayConfig) -> Iterable[ConfigFinding]:
    """A warning for each dead letter whose events `tidegate dlq` can't list."""
    for section, entries in (("brokers", config.brokers), ("triggers", config.triggers), ("bridges", config.bridges)):
        for name, entry in entries.items():
            ref = entry.dead_letter
            if ref is not None and ref.name not in READABLE:
                yield ConfigFinding(
                    f"`tidegate dlq`, `why` and the console can't read or replay what goes to `{ref.name}`; they only"
                    " tell that it went there",
                    (section, name, "dead_letter"),
                    "write `deadletter`, unless somebody reads them there",
                    warning=True,
                )
