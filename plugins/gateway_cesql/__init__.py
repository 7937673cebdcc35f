"""CloudEvents SQL (CESQL 1.0): `compile` an expression, evaluate it on events, or use it as a filter.

Source: the CloudEvents repository, `cesql/spec.md`, version 1.0.0."""

from __future__ import annotations

from .errors import CesqlError, ParseError
from .expression import Expression, compile

__all__ = ["CesqlError", "Expression", "ParseError", "compile"]
