"""The plugin's hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.contract.component import BuildContext, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.interfaces import Filter

    from .config import CesqlConfig


def build(config: CesqlConfig, context: BuildContext) -> Filter:
    """A filter that matches if the expression is TRUE and has no error."""
    from .expression import compile

    return compile(config.root).filter()


def _config() -> type[BaseModel]:
    from .config import CesqlConfig

    return CesqlConfig


@hookimpl
def gateway_filters() -> list[Component]:

    summary = "Matches when a CloudEvents SQL expression is true."
    # Knative calls the dialect `cesql`, the Subscriptions API (section 3.2.4.1) `sql`
    return [
        Component("cesql", summary, _config, build),
        Component("sql", "An alias of `cesql`: its name in the Subscriptions API.", _config, build),
    ]
