"""The plugin `spark`: a sink that streams a broker's log into a table, and the data source that it reads with.

`register(spark)` makes `spark.read.format("tidegate")` and `spark.readStream.format("tidegate")` available in any
session; `session()` starts a local session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .datasource import register
    from .query import session

__all__ = ["register", "session"]


def __getattr__(name: str) -> Any:
    # imports PySpark on demand: this package is imported whenever the gateway lists its plugins
    if name == "register":
        from .datasource import register

        return register
    if name == "session":
        from .query import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
