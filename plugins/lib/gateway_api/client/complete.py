"""Shell completion: names of triggers, brokers and bridges, and kinds.

The names come from a running gateway if it responds within a fraction of a second, else from the config here.
Completion never fails: at worst it offers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

PATIENCE_S = 0.5


def triggers(ctx: Any, incomplete: str) -> list[str]:
    """Names of triggers."""
    return _starting(_names(ctx, "triggers"), incomplete)


def brokers(ctx: Any, incomplete: str) -> list[str]:
    """Names of brokers and bridges."""
    return _starting(_names(ctx, "brokers", "bridges"), incomplete)


def triggers_and_bridges(ctx: Any, incomplete: str) -> list[str]:
    """Names of triggers and bridges."""
    return _starting(_names(ctx, "triggers", "bridges"), incomplete)


def of_kind(ctx: Any, incomplete: str) -> list[str]:
    """Names of the kind in the previous word."""
    kind = ctx.params.get("kind")
    return _starting(_names(ctx, kind), incomplete) if kind else []


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _names(ctx: Any, *sections: str) -> list[str]:
    with suppress(Exception):
        return _running(ctx, sections)
    with suppress(Exception):
        return _written(ctx, sections)
    return []


def _running(ctx: Any, sections: Sequence[str]) -> list[str]:
    from .running import connected, fetch_status

    with connected(ctx.params.get("admin"), ctx.params.get("data_dir"), PATIENCE_S) as (url, http):
        status = fetch_status(url, http)
    return [entry.name for section in sections for entry in status.entries(section)]


def _written(ctx: Any, sections: Sequence[str]) -> list[str]:
    from gateway_core.contract.cli.common import config_paths
    from gateway_core.contract.configs import installed, names

    return names(config_paths(ctx.params.get("paths")), installed(), sections)
