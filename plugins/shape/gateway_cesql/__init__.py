"""CloudEvents SQL (CESQL 1.0): `compile` an expression, evaluate it on events, or use it as a filter.

Source: the CloudEvents repository, `cesql/spec.md`, version 1.0.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import CesqlError, ParseError

if TYPE_CHECKING:
    from .expression import Expression, compile

__all__ = ["CesqlError", "Expression", "ParseError", "compile"]


def __getattr__(name: str) -> Any:
    # imported on first use, because every command lookup imports this package
    if name in ("Expression", "compile"):
        from . import expression

        return getattr(expression, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
