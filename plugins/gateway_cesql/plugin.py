"""What the plugin offers."""

from __future__ import annotations

from gateway_core.component import BuildContext, Component
from gateway_core.hookspecs import hookimpl
from gateway_core.interfaces import Filter

from .config import CesqlConfig
from .expression import compile


def build(config: CesqlConfig, context: BuildContext) -> Filter:
    """The filter that an event matches where the expression is TRUE and has no error."""
    return compile(config.root).filter()


@hookimpl
def gateway_filters() -> list[Component]:
    summary = "Matches when a CloudEvents SQL expression is true."
    # Knative calls the dialect `cesql`, the Subscriptions API (section 3.2.4.1) `sql`
    return [
        Component("cesql", summary, CesqlConfig, build),
        Component("sql", "Another name for `cesql`, that of the Subscriptions API.", CesqlConfig, build),
    ]
