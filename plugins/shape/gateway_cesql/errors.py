"""The errors of CESQL (specification section 3.3)."""

from __future__ import annotations

from typing import Any, Literal

Kind = Literal["math", "cast", "missingAttribute", "missingFunction", "functionEvaluation", "generic"]


class ParseError(ValueError):
    """The text is not a CESQL expression. Has the fault, its character (counted from 1), and the remedy."""

    def __init__(self, message: str, position: int, remedy: str) -> None:
        super().__init__(f"character {position}: {message} (remedy: {remedy})")
        self.message = message
        self.position = position
        self.remedy = remedy


class CesqlError(Exception):
    """An evaluation failed. `kind` is the specification's type of error, in the spelling of its conformance tests."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        # a function may fail with its own value, which is the result if the function is the whole expression
        self.value: Any = None
        self.origin: object = None

    def __repr__(self) -> str:
        return f"<CesqlError {self.kind}: {self.message}>"
