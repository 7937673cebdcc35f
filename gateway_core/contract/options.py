"""The base class of config models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

HIDDEN = "****"
"""Shown in place of a secret."""


class Config(BaseModel):
    """The base of every config model: strict about keys, so that a misspelt one is a fault and not a surprise."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, use_attribute_docstrings=True)
    _hidden: frozenset[str] = frozenset()  # fields that hold a secret's value
    _shown: Mapping[str, str] = {}  # URLs with parts from the environment, as they may be shown

    def hide(self, fields: Iterable[str]) -> None:
        """Keeps these fields' values out of `repr`; the loader names those that were filled from a secret."""
        self._hidden = self._hidden.union(fields)

    def hides(self, field: str) -> bool:
        """Whether this field's value holds a secret, so that nothing may show it."""
        return field in self._hidden

    def show_as(self, texts: Mapping[str, str]) -> None:
        """Sets what to show instead of the values of these fields; the loader does so for URLs with a path or query
        from the environment."""
        self._shown = {**self._shown, **texts}

    def shown(self, field: str) -> str | None:
        """What to show instead of a text; None to show the text itself."""
        return self._shown.get(field)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        args = super().__repr_args__()
        return [(k, HIDDEN if k in self._hidden else self._shown.get(k or "", v)) for k, v in args]
