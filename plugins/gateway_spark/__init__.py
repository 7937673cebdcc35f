"""Tidegate plugin `spark`: the sink that streams a broker's log into a table, and the data source it reads with.

`register(spark)` makes `spark.read.format("tidegate")` and `spark.readStream.format("tidegate")` work in any session;
`session()` starts a local one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .datasource import register
    from .query import session

__all__ = ["register", "session"]


def __getattr__(name: str) -> Any:
    # PySpark is imported only by those who use it: this package is imported whenever the gateway lists its plugins
    if name == "register":
        from .datasource import register

        return register
    if name == "session":
        from .query import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
