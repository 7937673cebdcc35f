"""How the columns of a table evolve, and what can't be added to them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..data.evolution import conflict, merge
from ..data.types import Type
from ..errors import SparkFault

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def grown(location: str, known: Type, jschema: Any) -> Type:
    """A table's columns after it has taken rows of another schema. Raises `SparkFault` if they conflict."""
    new = plain(json.loads(jschema.json()))
    if words := conflict(known, new, "column"):
        raise SparkFault(
            f"the table {location} has conflicting columns: {words}; choose another path, or move the table away"
        )
    return plain(merge(known, new))


def plain(of: Any) -> Type:
    """The part of a type that matters for a table: each column is nullable, and there is no metadata."""
    if isinstance(of, dict):
        made: dict[str, Any] = {k: plain(v) for k, v in of.items() if k != "metadata"}
        for name in ("nullable", "containsNull", "valueContainsNull"):
            if name in made:
                made[name] = True
        if "name" in made:
            made["metadata"] = {}
        return made
    return [plain(v) for v in of] if isinstance(of, list) else of  # type: ignore[return-value]


def struct_type(of: Type) -> StructType:
    """The same as Spark's type."""
    from pyspark.sql.types import StructType

    assert isinstance(of, dict)
    return StructType.fromJson(of)
